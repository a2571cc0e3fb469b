"""API keys: creating, verifying and revoking them.

A key is `hg_<id>_<secret>`. The id finds the row, which has a hash of the secret. The secret is
random and long, so a fast hash is safe: nobody can guess it from the hash.
"""

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256

from headgate.base.errors import InvalidInput
from headgate.base.ids import Ids
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.secret import Secret, random_secret
from headgate.flow.jobs.submit import check_name
from headgate.flow.runtime import Runtime
from headgate.model.api_key import ApiKey, Role
from headgate.ports.people.api_keys import NewApiKey

LIST_MAX = 1000
_KEY = re.compile(r"hg_(key_[0-9A-Z]{26})_([0-9a-f]{64})", re.ASCII)
#: No secret has this hash. An unknown id is compared with it, so that it takes as long.
_NO_HASH = "0" * 64

_log = get_logger(__name__)


class ApiKeys:
    """The keys of an application's HTTP API."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application."""
        self._store = rt.api_keys
        self._ids: Ids = rt.ids
        self._rng = rt.rng

    async def make(
        self, name: str, *, role: Role | str, user_id: str | None = None
    ) -> tuple[ApiKey, Secret]:
        """Create a key; returns it and the text for its owner, which is stored nowhere."""
        if role not in list(Role):
            raise InvalidInput("role", f"{str(role)!r} is not one of {', '.join(Role)}")
        role = Role(role)
        if role is Role.ADMIN and user_id is not None:
            raise InvalidInput("user_id", "an admin key belongs to no user; leave it out")
        if role is not Role.ADMIN and user_id is None:
            raise InvalidInput("user_id", f"name the owner; a key of role {role} sees only theirs")
        secret = random_secret(self._rng)
        key = await self._store.add(
            NewApiKey(
                id=self._ids.new("key"),
                hash=_hash(secret.reveal()),
                name=check_name("name", name),
                user_id=None if user_id is None else check_name("user_id", user_id),
                role=role,
            )
        )
        _log.info(LogEvent.API_KEY_MADE, key=key.id, role=role.value, user=user_id)
        return key, Secret(f"hg_{key.id}_{secret.reveal()}")

    async def verify(self, presented: Secret) -> ApiKey | None:
        """The key, if it is valid. An unknown id takes as long as a wrong secret."""
        parts = _KEY.fullmatch(presented.reveal())
        if parts is None:
            return None
        stored = await self._store.find(parts[1])
        # Compared as bytes, because compare_digest takes only ASCII strings.
        expected = (_NO_HASH if stored is None else stored.hash).encode()
        same = hmac.compare_digest(_hash(parts[2]).encode(), expected)
        if stored is None or not same or stored.key.revoked_at is not None:
            return None
        return stored.key

    async def list(self, *, limit: int = 50, after: str | None = None) -> Sequence[ApiKey]:
        """Keys, the oldest first; for the next page, pass the last id as `after`."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        return await self._store.list_keys(limit=limit, after=after)

    async def revoke(self, key_id: str) -> ApiKey:
        """Revoke the key at once."""
        key = await self._store.revoke(key_id)
        _log.info(LogEvent.API_KEY_REVOKED, key=key.id)
        return key


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
