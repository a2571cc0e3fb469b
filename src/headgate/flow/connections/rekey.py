"""Rekeying: encrypts every connection's credentials with the newest key, while workers run.

It stores no progress: the rows with another key are what is left to do. So it can be stopped at any
time and started again, and it may run twice at once. A row that changes meanwhile is skipped, and
read again in the next round.
"""

from collections.abc import Callable, Mapping

import msgspec

from headgate.base.errors import CredentialsUnreadable
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.flow.connections.sealing import seal, unseal
from headgate.model.connection import Tokens
from headgate.ports.connections.auth import Vault
from headgate.ports.connections.store import KeyRotationStore, ResealedCredentials, SealedConnection

BATCH = 100
#: The most rounds through the table; one is enough if no row changes meanwhile.
ROUNDS_MAX = 20

_log = get_logger(__name__)


class RekeyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rekeying."""

    key_id: str
    #: Connections that this run has encrypted with the newest key.
    resealed: int
    #: Connections whose key is not set: their users have to connect again.
    unreadable: int
    #: The number of connections now, by key.
    by_key: Mapping[str, int]

    @property
    def left(self) -> int:
        """The number of connections that do not use the newest key."""
        return sum(count for key_id, count in self.by_key.items() if key_id != self.key_id)


#: Called with the number of connections done, and the total.
ProgressCallback = Callable[[int, int], None]


async def rekey(
    store: KeyRotationStore, vault: Vault, *, progress: ProgressCallback = lambda done, total: None
) -> RekeyResult:
    """Encrypt all credentials that use another key with the newest key."""
    key_id = vault.key_id
    total = _count_others(await store.count_by_key(), key_id)
    progress(0, total)
    done, unreadable = 0, 0
    for _ in range(ROUNDS_MAX):
        found, unreadable, after = 0, 0, ""
        while batch := await store.list_under_other_keys(key_id, after=after, limit=BATCH):
            after = batch[-1].connection.id
            resealed = [each for stored in batch if (each := _reseal(vault, stored))]
            found += len(resealed)
            unreadable += len(batch) - len(resealed)
            done += await store.reseal(resealed)
            progress(done, max(done, total))
        if found == 0:
            break
    by_key = await store.count_by_key()
    _log.info(LogEvent.REKEYED, key=key_id, resealed=done, unreadable=unreadable)
    return RekeyResult(key_id=key_id, resealed=done, unreadable=unreadable, by_key=by_key)


def _reseal(vault: Vault, stored: SealedConnection) -> ResealedCredentials | None:
    connection = stored.connection
    try:
        opened = unseal(vault, stored)
    except CredentialsUnreadable as error:
        _log.error(LogEvent.CREDENTIALS_UNREADABLE, connection=connection.id, error=str(error))
        return None
    sealed = seal(
        vault,
        Tokens(access=opened.access, refresh=opened.refresh),
        connection.id,
        user_id=connection.user_id,
        source=connection.source,
    )
    return ResealedCredentials(
        connection_id=connection.id,
        version=connection.version,
        old_key_id=stored.sealed.key_id,
        sealed=sealed,
    )


def _count_others(by_key: Mapping[str, int], key_id: str) -> int:
    return sum(count for each, count in by_key.items() if each != key_id)
