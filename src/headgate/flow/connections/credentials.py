"""The credentials of connections: opening them for a chunk, and renewing them.

One worker at a time renews a connection's tokens, under a lease on its row, and in a process one
task asks for the lease. New tokens are stored before they are used. If the provider refuses, the
row is read again: another worker may have renewed the tokens already, and then only the old ones
were refused.

A renewal is not interrupted once it has begun: tokens that the provider has issued and nobody has
stored may be the only valid ones.
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
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error, redact
from headgate.flow.connections.sealing import OpenCredentials, seal, unseal
from headgate.model.connection import Connection, ConnectionReason, Tokens
from headgate.model.states import ConnectionState
from headgate.ports.connections.auth import Auth, AuthContext, RevocableAuth, TokenPlacement, Vault
from headgate.ports.connections.store import CredentialStore, Renewal

#: The lease of one renewal, longer than the token endpoint and the store may take to answer.
LEASE = timedelta(seconds=60)
#: While another worker renews, the row is read this often, this many times; then the job waits.
LOOK_S = 0.5
LOOKS_MAX = 40
PUT_OFF = timedelta(seconds=15)
#: After a refusal, a worker that lost its lease has this long to store the tokens that it got.
SECOND_LOOK_S = 2.0
#: The waits between the tries to store new tokens.
SAVE_RESTS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
#: A job checks a paused connection again after this time.
PAUSED_LOOK = timedelta(minutes=5)

_log = get_logger(__name__)


class Credentials:
    """The credentials of all connections, for one process."""

    def __init__(
        self, store: CredentialStore, vault: Vault, auth_context: AuthContext, ids: Ids
    ) -> None:
        """Store the credentials in `store`, encrypted by `vault`."""
        self.store = store
        self.vault = vault
        self.auth_context = auth_context
        self.ids = ids
        self._clock = auth_context.clock
        #: The running renewals, by connection; all tasks that need one wait for the same renewal.
        self._renewing: dict[str, asyncio.Task[OpenCredentials]] = {}

    async def open(
        self, auth: Auth, connection_id: str, *, user_id: str, source: str
    ) -> "ConnectionTokens":
        """Open a connection's credentials for one chunk.

        Raises AuthExpired if the account must be connected again, and ConnectionPaused if the
        connection is paused.
        """
        opened = await self._read(connection_id, user_id)
        if opened.connection.source != source:
            raise AuthExpired(f"connection {connection_id} is not to {source}: connect the account")
        self._check(opened.connection)
        return ConnectionTokens(self, auth, opened)

    async def revoke(self, auth: RevocableAuth, connection: Connection) -> None:
        """Withdraw at the provider what the user has authorized; the row stays as it is."""
        opened = await self._read(connection.id, connection.user_id)
        tokens = ConnectionTokens(self, auth, opened)
        # An expired access token is renewed first: the provider would not know it any more.
        await tokens.place_token()
        await auth.revoke(self.auth_context, tokens.opened.access, tokens.opened.refresh)

    async def close(self) -> None:
        """Wait for running renewals to end, at most for the time of a lease."""
        if self._renewing:
            await asyncio.wait(self._renewing.values(), timeout=LEASE.total_seconds())

    # ---- renewing ------------------------------------------------------------------------------

    async def renew(self, auth: Auth, old: OpenCredentials) -> OpenCredentials:
        """Newer credentials than `old`, renewed by this worker or by another."""
        key = old.connection.id
        task = self._renewing.get(key)
        if task is None:
            task = asyncio.create_task(self._renew(auth, old), name=f"renew {key}")
            self._renewing[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        # Shielded: the waiting task may be interrupted, but the renewal must reach its end.
        return await asyncio.shield(task)

    def _ended(self, key: str, task: asyncio.Task[OpenCredentials]) -> None:
        del self._renewing[key]
        if not task.cancelled():
            # Retrieved, because all waiting tasks may be gone, and asyncio would warn.
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
                message = "there is no refresh token to renew them with"
                return await self._record_refusal(current, ConnectionReason.EXPIRED, message)
            if await self.store.lease(
                connection.id, version=connection.version, holder=holder, term=LEASE
            ):
                return await self._exchange(auth, current, holder)
        raise Deferred(PUT_OFF, "another worker is still renewing the credentials")

    async def _exchange(self, auth: Auth, old: OpenCredentials, holder: str) -> OpenCredentials:
        assert old.refresh is not None
        try:
            tokens = await auth.refresh(self.auth_context, old.refresh)
        except GrantRefused as refusal:
            return await self._confirm_refusal(old, refusal)
        except BaseException:
            # The error says nothing about the credentials, so another worker may try. If even the
            # release fails, the lease expires.
            with suppress(HeadgateError):
                await self.store.release(old.connection.id, holder=holder)
            raise
        return await self._save(old, tokens)

    async def _save(self, old: OpenCredentials, tokens: Tokens) -> OpenCredentials:
        """Store new tokens, also across an outage of the store, and then return them."""
        connection = old.connection
        # Without a new refresh token, the old one stays valid.
        whole = msgspec.structs.replace(tokens, refresh=tokens.refresh or old.refresh)
        sealed = seal(
            self.vault, whole, connection.id, user_id=connection.user_id, source=connection.source
        )
        renewal = Renewal(sealed=sealed, expires_at=tokens.expires_at, scopes=tokens.scopes)
        after = await self._write_surely(connection, renewal)
        if after is None:
            # Newer credentials are there: another worker's, or these, by a write without an answer.
            return self._usable(await self._read(connection.id, connection.user_id))
        _log.info(LogEvent.CREDENTIALS_RENEWED, connection=connection.id, source=connection.source)
        return self._usable(
            OpenCredentials(connection=after, access=whole.access, refresh=whole.refresh)
        )

    async def _write_surely(self, connection: Connection, renewal: Renewal) -> Connection | None:
        """Store the renewal, with retries: these tokens exist nowhere else."""
        for rest_s in SAVE_RESTS_S:
            try:
                return await self.store.renew(connection.id, renewal, version=connection.version)
            except StoreError as error:
                _log.error(
                    LogEvent.TOKENS_NOT_STORED,
                    connection=connection.id,
                    error=describe_error(error),
                )
                await self._clock.sleep(rest_s)
        return await self.store.renew(connection.id, renewal, version=connection.version)

    async def _confirm_refusal(
        self, old: OpenCredentials, refusal: GrantRefused
    ) -> OpenCredentials:
        """Record that the provider refused to renew, unless another worker has newer tokens."""
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
        """Record that the user must connect again and raise, or return newer credentials."""
        connection = old.connection
        recorded = await self.store.refuse(
            connection.id, version=connection.version, reason=reason, error=redact(message)
        )
        if recorded is None:
            current = await self._read(connection.id, connection.user_id)
            if current.connection.version != connection.version:
                return self._usable(current)
        _log.warning(
            LogEvent.NEEDS_REAUTH,
            connection=connection.id,
            source=connection.source,
            reason=reason.value,
        )
        raise GrantRefused(
            f"{connection.source} no longer accepts the credentials of connection "
            f"{connection.id} ({message}): the account must be connected again"
        )

    async def reject(self, opened: OpenCredentials, message: str) -> None:
        """Record that the provider refused a token that it had just issued."""
        with suppress(GrantRefused):
            await self._record_refusal(opened, ConnectionReason.ACCESS_REFUSED, message)

    # ---- parts ---------------------------------------------------------------------------------

    async def _read(self, connection_id: str, user_id: str) -> OpenCredentials:
        try:
            sealed = await self.store.get_sealed(connection_id, user_id=user_id)
        except NotFound:
            # Terminal: connecting the account again makes another connection.
            raise Terminal(
                f"connection {connection_id} of user {user_id} no longer exists: connect the "
                "account and start a new job"
            ) from None
        return unseal(self.vault, sealed)

    def _usable(self, opened: OpenCredentials) -> OpenCredentials:
        # A pause stops the next chunk, not the present one.
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
    """One connection's credentials for one chunk, as the HTTP client uses them."""

    def __init__(self, credentials: Credentials, auth: Auth, opened: OpenCredentials) -> None:
        """Begin with the stored credentials."""
        self._credentials = credentials
        self._auth = auth
        #: The credentials as they are now.
        self.opened = opened
        self._clock = credentials.auth_context.clock
        #: The tokens were renewed, or an early renewal failed: do not renew early in this chunk.
        self._stop_renewing = False

    @property
    def external_id(self) -> str | None:
        """The provider's id of the connected account, if it is known."""
        return self.opened.connection.external_id

    async def place_token(self) -> TokenPlacement:
        """The headers and parameters of a valid access token."""
        expired = self._ends_within(0.0)
        expiring = self._ends_within(self._auth.refresh_margin_s)
        if expired or (expiring and not self._stop_renewing):
            try:
                await self.renew()
            except (Retryable, Deferred) as error:
                if expired:
                    raise
                # The token is still valid, so the chunk goes on with it.
                _log.warning(LogEvent.RENEWAL_PUT_OFF, error=describe_error(error))
                self._stop_renewing = True
        return self._auth.place_token(self.opened.access)

    async def renew(self) -> None:
        """Get newer credentials than those of the last request."""
        self.opened = await self._credentials.renew(self._auth, self.opened)
        # A provider may return the same tokens while they are valid; one renewal a chunk is enough.
        self._stop_renewing = True

    async def reject(self, message: str) -> None:
        """Record that the provider refused the new token too."""
        await self._credentials.reject(self.opened, message)

    def _ends_within(self, seconds: float) -> bool:
        ends = self.opened.connection.expires_at
        return ends is not None and ends <= self._clock.now() + timedelta(seconds=seconds)
