"""Where connections are kept, what encrypts their credentials, and how a provider renews them.

Every method of `Accounts` is one atomic, durable operation. Where a user is named, another user's
connection is NotFound, as one that was never there. What concerns credentials is fenced by the
version that it was decided on: zero rows means the race was lost, and is not an error.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Protocol, runtime_checkable

import msgspec

from headgate.base.clock import Clock
from headgate.base.secret import Secret
from headgate.model.account import Binding, Connection, ConnectionReason, Sealed, Tokens
from headgate.ports.transport import Transport


class NewConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection to be stored, with its credentials."""

    id: str
    user_id: str
    source: str
    external_id: str | None
    scopes: tuple[str, ...]
    expires_at: datetime | None
    sealed: Sealed


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """New credentials for a connection."""

    sealed: Sealed
    expires_at: datetime | None
    #: None: as they were.
    scopes: tuple[str, ...] | None = None
    external_id: str | None = None


class Linked(msgspec.Struct, frozen=True):
    """A connection together with its credentials, still encrypted."""

    connection: Connection
    sealed: Sealed


class Resealed(msgspec.Struct, frozen=True, kw_only=True):
    """The same credentials under another key."""

    connection_id: str
    #: As they were when they were read.
    version: int
    old_key_id: str
    sealed: Sealed


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A user who was sent to the provider's page."""

    state_hash: str
    session_hash: str
    user_id: str
    source: str
    #: The connection to connect again; None for a new one.
    connection_id: str | None
    redirect_uri: str
    sealed_verifier: bytes


class Accounts(Protocol):
    """Connections and their credentials."""

    async def add(self, new: NewConnection) -> Connection | None:
        """Store a connection; None where the user has connected that account already."""
        ...

    async def reconnect(
        self, connection_id: str, renewal: Renewal, *, user_id: str
    ) -> Connection | None:
        """Give it new credentials and make it active; None where they are another account's."""
        ...

    async def get(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """The connection."""
        ...

    async def find(self, user_id: str, source: str, external_id: str) -> Connection | None:
        """The user's connection to that account."""
        ...

    async def of_account(
        self, source: str, external_id: str, *, limit: int = 100
    ) -> Sequence[Connection]:
        """Every user's connection to that account: whom an event of the provider's concerns."""
        ...

    async def list_connections(
        self, user_id: str, *, limit: int, after: str | None = None
    ) -> Sequence[Connection]:
        """A user's connections in the order of their ids, those after the id `after`."""
        ...

    async def linked(self, connection_id: str, *, user_id: str) -> Linked:
        """The connection with its credentials."""
        ...

    async def pause(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Let it stand still; IllegalTransition where its state does not allow that."""
        ...

    async def resume(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Let it go on."""
        ...

    async def remove(self, connection_id: str, *, user_id: str | None = None) -> None:
        """Delete it with its credentials; from then on no item is registered for it."""
        ...

    # Renewing credentials.

    async def lease(
        self, connection_id: str, *, version: int, holder: str, term: timedelta
    ) -> bool:
        """Become the one who renews these credentials; False while another is, or they changed."""
        ...

    async def release(self, connection_id: str, *, holder: str) -> None:
        """Give the lease back, if it is still ours."""
        ...

    async def renew(
        self, connection_id: str, renewal: Renewal, *, version: int
    ) -> Connection | None:
        """Store new credentials, and end the lease; None where there are newer ones.

        Whoever comes with credentials that continue those in the row is right, lease or not: a
        worker whose lease ran out while the provider answered holds the only good pair there is.
        """
        ...

    async def refuse(
        self, connection_id: str, *, version: int, reason: ConnectionReason, error: str
    ) -> Connection | None:
        """The provider no longer takes these credentials; None where there are newer ones."""
        ...

    # Connecting.

    async def begin(self, attempt: Attempt, *, term: timedelta) -> None:
        """Remember a user who was sent to the provider's page."""
        ...

    async def take(self, state_hash: str, *, session_hash: str, user_id: str) -> Attempt | None:
        """The attempt, once: it is gone afterwards. None where it expired, or is another's."""
        ...

    # Rotating keys.

    async def sealed_otherwise(self, key_id: str, *, after: str, limit: int) -> Sequence[Linked]:
        """Connections under any other key, in the order of their ids, after the id `after`."""
        ...

    async def reseal(self, batch: Sequence[Resealed]) -> int:
        """Put them under another key, those that have not changed; how many."""
        ...

    async def count_by_key(self) -> Mapping[str, int]:
        """How many connections there are under each key."""
        ...


class Vault(Protocol):
    """Encrypts and decrypts."""

    @property
    def key_id(self) -> str:
        """The key that new ciphertexts are made with."""
        ...

    def seal(self, plain: Secret, binding: Binding) -> bytes:
        """`plain`, encrypted for that place."""
        ...

    def open(self, sealed: bytes, binding: Binding) -> Secret:
        """The secret; CredentialsUnreadable where it cannot be had."""
        ...


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """What is told to the provider's page when a user is sent there."""

    redirect_uri: str
    state: Secret
    #: PKCE's verifier; the page gets only its hash.
    verifier: Secret


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What talking to an authorization server takes."""

    transport: Transport
    clock: Clock
    rng: Random


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """Where an access token goes in a request."""

    headers: Mapping[str, str] = {}
    params: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Placed({', '.join([*self.headers, *self.params])})"


class Auth(Protocol):
    """How one provider lets us in. Its quirks are data of the implementation."""

    @property
    def refreshes(self) -> bool:
        """Whether its tokens are renewed by a refresh token."""
        ...

    @property
    def refresh_margin_s(self) -> float:
        """Renew an access token that ends within so many seconds."""
        ...

    def placed(self, access: Secret) -> Placed:
        """The access token as a request carries it."""
        ...

    async def refresh(self, around: Surroundings, refresh_token: Secret) -> Tokens:
        """New tokens. GrantRefused where the provider says that there will be none, and only then.

        Anything else it raises says nothing about the credentials.
        """
        ...


@runtime_checkable
class CodeAuth(Auth, Protocol):
    """An `Auth` whose users consent on the provider's own page."""

    @property
    def redirect_uris(self) -> Sequence[str]:
        """Where its page may send users back to: these very texts."""
        ...

    def consent_url(self, consent: Consent) -> str:
        """The page to send the user to."""
        ...

    async def exchange(
        self, around: Surroundings, answered: Mapping[str, str], consent: Consent
    ) -> Tokens:
        """Tokens for what the page answered, which is what the user's browser came back with."""
        ...
