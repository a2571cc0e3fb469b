"""Credentials of connections: opening them for a chunk, and renewing them one worker at a time.

Of all processes one renews a connection's tokens, under a lease on its row; of all tasks in a
process, one asks for it. New tokens are stored before anybody uses them. Where the provider
refuses, the row is read again before that is believed: another worker may have been quicker, and
then what was refused is only old.

A renewal, once begun, is not interrupted: a pair of tokens that the provider has given out and
nobody has stored may be the only good one there is.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import assert_never

import msgspec

from headgate.base.errors import (
    AuthExpired,
    ConnectionPaused,
    Deferred,
    GrantRefused,
    HeadgateError,
    NotFound,
    Retryable,
    StoreError,
    Terminal,
)
from headgate.base.ids import Ids
from headgate.base.log import get_logger
from headgate.base.redact import describe_error, redact
from headgate.flow.sealing import OpenCredentials, seal, unseal
from headgate.model.connection import Connection, ConnectionReason, Tokens
from headgate.model.states import ConnectionState
from headgate.ports.auth import Auth, AuthContext, TokenPlacement, Vault
from headgate.ports.connections import CredentialStore, Renewal

#: One renewal: longer than the token endpoint is given to answer, and the store to come back.
LEASE = timedelta(seconds=60)
#: While another worker renews, look at the row this often, and then put the job off.
LOOK_S = 0.5
LOOKS_MAX = 40
PUT_OFF = timedelta(seconds=15)
#: After a refusal, give a worker that lost its lease this long to store what it got.
SECOND_LOOK_S = 2.0
#: A store that does not take the new tokens is asked again after each of these.
SAVE_RESTS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
#: A paused connection is looked at again after this.
PAUSED_LOOK = timedelta(minutes=5)

_log = get_logger(__name__)


class Credentials:
    """The credentials of all connections, as one process sees them."""

    def __init__(
        self, store: CredentialStore, vault: Vault, auth_context: AuthContext, ids: Ids
    ) -> None:
        """Keep them in `store`, encrypted by `vault`."""
        self.store = store
        self.vault = vault
        self.auth_context = auth_context
        self.ids = ids
        self._clock = auth_context.clock
        #: By connection: whoever asks meanwhile waits for the same renewal.
        self._renewing: dict[str, asyncio.Task[OpenCredentials]] = {}

    async def open(
        self, auth: Auth, connection_id: str, *, user_id: str, source: str
    ) -> "ConnectionTokens":
        """A connection's credentials for one chunk.

        Raises AuthExpired where the account must be connected first, or again, and
        ConnectionPaused where somebody paused it.
        """
        opened = await self._read(connection_id, user_id)
        if opened.connection.source != source:
            raise AuthExpired(f"connection {connection_id} is not to {source}: connect the account")
        self._check(opened.connection)
        return ConnectionTokens(self, auth, opened)

    async def close(self) -> None:
        """Let renewals that are under way come to their end, for as long as a lease lasts."""
        if self._renewing:
            await asyncio.wait(self._renewing.values(), timeout=LEASE.total_seconds())

    # ---- renewing ------------------------------------------------------------------------------

    async def renew(self, auth: Auth, old: OpenCredentials) -> OpenCredentials:
        """Newer credentials than these, by whoever gets them."""
        key = old.connection.id
        task = self._renewing.get(key)
        if task is None:
            task = asyncio.create_task(self._renew(auth, old), name=f"renew {key}")
            self._renewing[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        # Shielded: whoever waits may be told to stop; the renewal goes on to its end.
        return await asyncio.shield(task)

    def _ended(self, key: str, task: asyncio.Task[OpenCredentials]) -> None:
        del self._renewing[key]
        if not task.cancelled():
            # Everybody who waited may have left; then nobody else looks at it.
            task.exception()

    async def _renew(self, auth: Auth, old: OpenCredentials) -> OpenCredentials:
        holder = self.ids.new("renewal")
        connection = old.connection
        for look in range(LOOKS_MAX):
            if look:
                await self._clock.sleep(LOOK_S)
            current = await self._read(connection.id, connection.user_id)
            if current.connection.version != connection.version:
                return self._usable(current)
            self._usable(current)
            if not auth.refreshes or current.refresh is None:
                message = "there is nothing to renew them with"
                return await self._record_refusal(current, ConnectionReason.EXPIRED, message)
            if await self.store.lease(
                connection.id, version=connection.version, holder=holder, term=LEASE
            ):
                return await self._exchange(auth, current, holder)
        raise Deferred(PUT_OFF, "another worker has been renewing the credentials for long")

    async def _exchange(self, auth: Auth, old: OpenCredentials, holder: str) -> OpenCredentials:
        assert old.refresh is not None
        try:
            tokens = await auth.refresh(self.auth_context, old.refresh)
        except GrantRefused as refusal:
            return await self._confirm_refusal(old, refusal)
        except BaseException:
            # It says nothing about the credentials: let another try. If even that fails, the lease
            # ends by itself.
            with suppress(HeadgateError):
                await self.store.release(old.connection.id, holder=holder)
            raise
        return await self._save(old, tokens)

    async def _save(self, old: OpenCredentials, tokens: Tokens) -> OpenCredentials:
        """Store new tokens, across an outage of the store, and only then give them out."""
        connection = old.connection
        # A provider that gives no new refresh token means the old one.
        whole = msgspec.structs.replace(tokens, refresh=tokens.refresh or old.refresh)
        sealed = seal(
            self.vault, whole, connection.id, user_id=connection.user_id, source=connection.source
        )
        renewal = Renewal(sealed=sealed, expires_at=tokens.expires_at, scopes=tokens.scopes)
        after = await self._write_surely(connection, renewal)
        if after is None:
            # There are newer ones: another's, or these, by a write whose outcome was not told.
            return self._usable(await self._read(connection.id, connection.user_id))
        _log.info("credentials_renewed", connection=connection.id, source=connection.source)
        return self._usable(
            OpenCredentials(connection=after, access=whole.access, refresh=whole.refresh)
        )

    async def _write_surely(self, connection: Connection, renewal: Renewal) -> Connection | None:
        """Store it, across an outage: nothing else in the world knows these tokens."""
        for rest_s in SAVE_RESTS_S:
            try:
                return await self.store.renew(connection.id, renewal, version=connection.version)
            except StoreError as error:
                _log.error(
                    "tokens_not_stored", connection=connection.id, error=describe_error(error)
                )
                await self._clock.sleep(rest_s)
        return await self.store.renew(connection.id, renewal, version=connection.version)

    async def _confirm_refusal(
        self, old: OpenCredentials, refusal: GrantRefused
    ) -> OpenCredentials:
        """The provider gives no new tokens: believe it only if nobody else has got some."""
        connection = old.connection
        for rest_s in (0.0, SECOND_LOOK_S):
            await self._clock.sleep(rest_s)
            current = await self._read(connection.id, connection.user_id)
            if current.connection.version != connection.version:
                return self._usable(current)
        return await self._record_refusal(old, ConnectionReason.GRANT_REFUSED, str(refusal))

    async def _record_refusal(
        self, old: OpenCredentials, reason: ConnectionReason, message: str
    ) -> OpenCredentials:
        """Note that the account must be connected again, and raise; unless there are newer ones."""
        connection = old.connection
        recorded = await self.store.refuse(
            connection.id, version=connection.version, reason=reason, error=redact(message)
        )
        if recorded is None:
            current = await self._read(connection.id, connection.user_id)
            if current.connection.version != connection.version:
                return self._usable(current)
        _log.warning(
            "needs_reauth", connection=connection.id, source=connection.source, reason=reason.value
        )
        raise GrantRefused(
            f"{connection.source} no longer accepts the credentials of connection "
            f"{connection.id} ({message}): the account must be connected again"
        )

    async def reject(self, opened: OpenCredentials, message: str) -> None:
        """The provider refused a token that it had just given out."""
        with suppress(GrantRefused):
            await self._record_refusal(opened, ConnectionReason.ACCESS_REFUSED, message)

    # ---- parts ---------------------------------------------------------------------------------

    async def _read(self, connection_id: str, user_id: str) -> OpenCredentials:
        try:
            sealed = await self.store.get_sealed(connection_id, user_id=user_id)
        except NotFound:
            # Not to be connected again: a new connection is another one.
            raise Terminal(
                f"there is no connection {connection_id} of user {user_id} any more: connect the "
                "account, and start anew"
            ) from None
        return unseal(self.vault, sealed)

    def _usable(self, opened: OpenCredentials) -> OpenCredentials:
        # A pause stops the next chunk, not one that is under way.
        if opened.connection.state is ConnectionState.NEEDS_REAUTH:
            self._check(opened.connection)
        return opened

    def _check(self, connection: Connection) -> None:
        match connection.state:
            case ConnectionState.ACTIVE:
                return
            case ConnectionState.NEEDS_REAUTH:
                message = f" ({connection.error})" if connection.error else ""
                raise AuthExpired(
                    f"connection {connection.id} to {connection.source} must be connected again: "
                    f"{connection.reason.value}{message}"
                )
            case ConnectionState.PAUSED:
                raise ConnectionPaused(
                    PAUSED_LOOK,
                    f"connection {connection.id} to {connection.source} is paused",
                )
            case _:
                assert_never(connection.state)


class ConnectionTokens:
    """One connection's credentials for one chunk: what the HTTP client is given."""

    def __init__(self, credentials: Credentials, auth: Auth, opened: OpenCredentials) -> None:
        """Begin with what the row holds."""
        self._credentials = credentials
        self._auth = auth
        self._opened = opened
        self._clock = credentials.auth_context.clock
        #: Renewing ahead of time did not work; what there is will do for this chunk.
        self._stop_renewing = False

    async def place_token(self) -> TokenPlacement:
        """An access token that is good now."""
        expired = self._ends_within(0.0)
        expiring = self._ends_within(self._auth.refresh_margin_s)
        if expired or (expiring and not self._stop_renewing):
            try:
                await self.renew()
            except (Retryable, Deferred) as error:
                if expired:
                    raise
                # There is time left until it ends: no reason to stop for.
                _log.warning("renewal_put_off", error=describe_error(error))
                self._stop_renewing = True
        return self._auth.place_token(self._opened.access)

    async def renew(self) -> None:
        """Newer credentials than those that were placed last."""
        self._opened = await self._credentials.renew(self._auth, self._opened)
        # A provider may return the same tokens while they are good; once a chunk is enough.
        self._stop_renewing = True

    async def reject(self, message: str) -> None:
        """The provider refused new ones too."""
        await self._credentials.reject(self._opened, message)

    def _ends_within(self, seconds: float) -> bool:
        ends = self._opened.connection.expires_at
        return ends is not None and ends <= self._clock.now() + timedelta(seconds=seconds)
