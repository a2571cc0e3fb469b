"""Connecting a user's account, on the provider's consent page or with a token from the user.

The address of the consent page carries a random `state`, which the provider sends back. It is valid
once, for a few minutes, for the same user in the same browser session; we store only its hash. The
PKCE verifier, which proves that the code is ours to exchange, is stored encrypted.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256

from headgate.base.errors import Conflict, InvalidInput
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.secret import Secret, random_secret
from headgate.flow.connections.credentials import Credentials
from headgate.flow.connections.find import LIST_MAX, find_connection
from headgate.flow.connections.sealing import seal
from headgate.flow.jobs.submit import check_name
from headgate.flow.runtime import Runtime
from headgate.model.connection import Binding, Connection, ConnectionReason, Tokens
from headgate.ports.connections.auth import CodeAuth, Consent, one_line
from headgate.ports.connections.store import ConnectAttempt, NewConnection, Renewal

#: How long a user may take on the provider's page.
ATTEMPT_TERM = timedelta(minutes=10)
VALUE_LENGTH_MAX = 4096
_TRIES_MAX = 3
#: The most items deleted in one transaction, and the most such transactions in one call.
FORGET_MAX = 500
FORGET_ROUNDS_MAX = 200

_log = get_logger(__name__)


class ConnectBy(StrEnum):
    """How users connect an account at a provider."""

    #: They consent on the provider's own page.
    PAGE = "page"
    #: They copy a token from the provider's settings and enter it.
    TOKEN = "token"


class Connections:
    """The connections of users. With a `user_id`, another user's connections are NotFound."""

    def __init__(self, rt: Runtime) -> None:
        """Connect to the declared sources that have an `auth`."""
        self._rt = rt
        self._store = rt.connections
        self._registry = rt.registry

    @property
    def _credentials(self) -> Credentials:
        if self._rt.credentials is None:
            raise InvalidInput("syncs", "none of their sources has an `auth` to connect by")
        return self._rt.credentials

    # ---- out to the provider's page, and back --------------------------------------------------

    async def start(
        self,
        source: str,
        *,
        user_id: str,
        session: str,
        redirect_uri: str,
        connection_id: str | None = None,
    ) -> str:
        """The address of the provider's page to send the user to.

        `session` identifies the user's browser session; they must come back in the same session.
        `connection_id` names a connection to connect again, to the same account.
        """
        auth = self._code_auth(source)
        _check("session", session)
        if redirect_uri not in auth.redirect_uris:
            raise InvalidInput("redirect_uri", "is not one of those that the source declares")
        if connection_id is not None:
            self._same_source(await self.get(connection_id, user_id=user_id), source)
        rng = self._credentials.auth_context.rng
        consent = Consent(
            redirect_uri=redirect_uri, state=random_secret(rng), verifier=random_secret(rng)
        )
        state_hash = _hash(consent.state.reveal())
        binding = _verifier_binding(user_id, source, state_hash)
        attempt = ConnectAttempt(
            state_hash=state_hash,
            session_hash=_hash(session),
            user_id=user_id,
            source=source,
            connection_id=connection_id,
            redirect_uri=redirect_uri,
            sealed_verifier=self._credentials.vault.seal(consent.verifier, binding),
        )
        await self._rt.attempts.begin(attempt, term=ATTEMPT_TERM)
        return auth.consent_url(consent)

    async def finish(
        self, *, user_id: str, session: str, redirect_uri: str, query: Mapping[str, str]
    ) -> Connection:
        """Connect the account after the provider's page has sent the user back.

        `query` is the query of the request with which they came back, and `redirect_uri` its
        address without the query.
        """
        _check("session", session)
        state = query.get("state", "")
        _check("state", state)
        attempt = await self._rt.attempts.take(
            _hash(state), session_hash=_hash(session), user_id=user_id
        )
        if attempt is None:
            raise InvalidInput(
                "state", "is unknown, was used before, or is older than 10 minutes: start again"
            )
        if redirect_uri != attempt.redirect_uri:
            raise InvalidInput("redirect_uri", "is not the address that was given to the provider")
        auth = self._code_auth(attempt.source)
        binding = _verifier_binding(user_id, attempt.source, attempt.state_hash)
        verifier = self._credentials.vault.open(attempt.sealed_verifier, binding)
        consent = Consent(redirect_uri=redirect_uri, state=Secret(state), verifier=verifier)
        tokens = await auth.exchange(self._credentials.auth_context, query, consent)
        return await self._save(
            attempt.source, user_id, tokens, attempt.connection_id, in_person=True
        )

    async def connect_with_token(
        self,
        source: str,
        token: Secret,
        *,
        user_id: str,
        external_id: str | None = None,
        connection_id: str | None = None,
    ) -> Connection:
        """Connect an account by a token that the user copied from the provider.

        `external_id` is the provider's id of the account. If the user has connected that account
        already, its connection gets the new token. `connection_id` names a connection whose token
        is to be replaced.
        """
        if self.connects_by(source) is not ConnectBy.TOKEN:
            raise InvalidInput("source", f"{source!r} is connected on a page, not by a token")
        check_name("user_id", user_id)
        if external_id is not None:
            check_name("external_id", external_id)
        _check_token(token)
        if connection_id is not None:
            self._same_source(await self.get(connection_id, user_id=user_id), source)
        tokens = Tokens(access=token, external_id=external_id)
        # The token may have come from a program, so it is no sign that the user is here.
        return await self._save(source, user_id, tokens, connection_id, in_person=False)

    # ---- finding, pausing and removing ---------------------------------------------------------

    async def get(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """The connection; NotFound if it does not exist or belongs to another user."""
        return await self._store.get(connection_id, user_id=user_id)

    async def resolve(
        self,
        source: str,
        *,
        user_id: str,
        connection_id: str | None = None,
        signed_in: bool = False,
    ) -> Connection:
        """The user's connection to `source`: the named one, or their only one.

        With `signed_in`, raises NotConnected if the user has to sign in again.
        """
        title = self._registry.titles.get(source)
        return await find_connection(
            self._store,
            source,
            user_id=user_id,
            given=connection_id,
            title=title,
            signed_in=signed_in,
        )

    async def of_user(
        self, user_id: str, *, limit: int = 50, after: str | None = None
    ) -> Sequence[Connection]:
        """A user's connections; for the next page, pass the last id as `after`."""
        return await self.list(user_id=user_id, limit=limit, after=after)

    async def list(
        self, *, user_id: str | None = None, limit: int = 50, after: str | None = None
    ) -> Sequence[Connection]:
        """A user's connections, or everybody's; for the next page, pass the last id as `after`."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        return await self._store.list_connections(user_id, limit=limit, after=after)

    async def of_account(self, source: str, external_id: str) -> Sequence[Connection]:
        """All users' connections to that account, which an event of the provider concerns."""
        return await self._store.of_account(source, external_id)

    async def pause(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Pause the connection; its jobs wait until it is resumed."""
        return await self._store.pause(connection_id, user_id=user_id)

    async def resume(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Resume the connection; its waiting jobs go on within five minutes."""
        return await self._store.resume(connection_id, user_id=user_id)

    async def mark_withdrawn(self, connection: Connection, error: str) -> None:
        """Record that the user withdrew the authorization at the provider, and must sign in again.

        The connection's jobs end at their next chunk, without a request. Nothing changes if it has
        newer credentials than `connection`.
        """
        await self._credentials.store.refuse(
            connection.id,
            version=connection.version,
            reason=ConnectionReason.GRANT_REFUSED,
            error=error,
        )

    async def remove(self, connection_id: str, *, user_id: str | None = None) -> None:
        """Delete the connection, its credentials and its items; records and coverage stay.

        The credentials are deleted first; from then on nothing is requested from the provider, and
        no item is registered. A worker that settles a deleted item writes nothing. A pruner
        deletes what is left: after a crash, of a registration at that very moment, or because there
        were too many items.
        """
        await self._store.remove(connection_id, user_id=user_id)
        forgotten = await self._forget_items(connection_id)
        _log.info(LogEvent.DISCONNECTED, connection=connection_id, items=forgotten)

    # ---- parts ---------------------------------------------------------------------------------

    async def _forget_items(self, connection_id: str) -> int:
        """Delete items of the connection, up to a limit; returns how many."""
        items, forgotten = self._rt.items, 0
        if items is None:
            return 0
        for _ in range(FORGET_ROUNDS_MAX):
            some = await items.forget(connection_id, limit=FORGET_MAX)
            forgotten += some
            if some < FORGET_MAX:
                break
        return forgotten

    async def _save(
        self,
        source: str,
        user_id: str,
        tokens: Tokens,
        connection_id: str | None,
        *,
        in_person: bool,
    ) -> Connection:
        """Store the tokens in the named connection, in the account's, or in a new one."""
        for _ in range(_TRIES_MAX):
            saved = await self._save_once(
                source, user_id, tokens, connection_id, in_person=in_person
            )
            if saved is not None:
                _log.info(LogEvent.CONNECTED, connection=saved.id, source=source, user=user_id)
                return saved
            # The same account was connected at the same moment: find that connection.
        raise Conflict("the same account is being connected over and over; try again")

    async def _save_once(
        self,
        source: str,
        user_id: str,
        tokens: Tokens,
        connection_id: str | None,
        *,
        in_person: bool,
    ) -> Connection | None:
        external_id = tokens.external_id
        known = None
        if external_id is not None:
            known = await self._store.find(user_id, source, external_id)
        if connection_id is not None and known is not None and known.id != connection_id:
            raise Conflict(f"that account is connected already, as {known.id}")
        existing_id = connection_id or (None if known is None else known.id)
        new_id = existing_id or self._credentials.ids.new("conn")
        vault = self._credentials.vault
        sealed = seal(vault, tokens, new_id, user_id=user_id, source=source)
        if existing_id is None:
            return await self._store.add(
                NewConnection(
                    id=new_id,
                    user_id=user_id,
                    source=source,
                    external_id=external_id,
                    scopes=tokens.scopes or (),
                    expires_at=tokens.expires_at,
                    sealed=sealed,
                ),
                in_person=in_person,
            )
        renewal = Renewal(
            sealed=sealed,
            expires_at=tokens.expires_at,
            scopes=tokens.scopes,
            external_id=external_id,
        )
        reconnected = await self._store.reconnect(
            existing_id, renewal, user_id=user_id, in_person=in_person
        )
        if reconnected is None:
            raise Conflict(
                f"connection {existing_id} is to another account; connect that one, or a new"
            )
        return reconnected

    def connects_by(self, source: str) -> ConnectBy:
        """How users connect to that source; InvalidInput if they do not."""
        return ConnectBy.PAGE if isinstance(self._auth(source), CodeAuth) else ConnectBy.TOKEN

    def _auth(self, source: str) -> object:
        auth = self._registry.auths.get(source)
        if auth is None:
            known_sources = ", ".join(sorted(self._registry.auths)) or "none"
            raise InvalidInput(
                "source", f"{source!r} is not one that users connect to; there are: {known_sources}"
            )
        return auth

    def _code_auth(self, source: str) -> CodeAuth:
        auth = self._auth(source)
        if not isinstance(auth, CodeAuth):
            raise InvalidInput("source", f"{source!r} is connected by a token, not on a page")
        return auth

    @staticmethod
    def _same_source(connection: Connection, source: str) -> None:
        if connection.source != source:
            raise InvalidInput("connection_id", f"{connection.id} is not a connection to {source}")


def _check(field: str, value: str) -> None:
    if not 1 <= len(value) <= VALUE_LENGTH_MAX:
        raise InvalidInput(field, f"must have between 1 and {VALUE_LENGTH_MAX:,} characters")


def _check_token(token: Secret) -> None:
    """Refuse a token that no request can carry; the error does not quote it."""
    _check("token", token.reveal())
    text = one_line(token)
    if text != text.strip():
        raise InvalidInput("token", "must not have spaces before or after it")


def _hash(text: str) -> str:
    # A fast hash is safe: the text is random, or worthless without the random state.
    return sha256(text.encode()).hexdigest()


def _verifier_binding(user_id: str, source: str, state_hash: str) -> Binding:
    return Binding(user_id=user_id, source=source, row_id=state_hash, column="verifier")
