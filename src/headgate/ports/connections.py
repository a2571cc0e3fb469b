"""Where connections are kept, and their credentials, encrypted: a port for each kind of user.

Every method is one atomic, durable operation. Where a user is named, another user's connection is
NotFound, as one that was never there. What concerns credentials is fenced by the version that it
was decided on: zero rows means the race was lost, and is not an error.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from headgate.model.connection import Connection, ConnectionReason, SealedCredentials


class NewConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection to be stored, with its credentials."""

    id: str
    user_id: str
    source: str
    external_id: str | None
    scopes: tuple[str, ...]
    expires_at: datetime | None
    sealed: SealedCredentials


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """New credentials for a connection."""

    sealed: SealedCredentials
    expires_at: datetime | None
    #: None: as they were.
    scopes: tuple[str, ...] | None = None
    external_id: str | None = None


class SealedConnection(msgspec.Struct, frozen=True):
    """A connection together with its credentials, still encrypted."""

    connection: Connection
    sealed: SealedCredentials


class ResealedCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """The same credentials under another key."""

    connection_id: str
    #: As they were when they were read.
    version: int
    old_key_id: str
    sealed: SealedCredentials


class ConnectAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A user who was sent to the provider's page."""

    state_hash: str
    session_hash: str
    user_id: str
    source: str
    #: The connection to connect again; None for a new one.
    connection_id: str | None
    redirect_uri: str
    sealed_verifier: bytes


class ConnectionStore(Protocol):
    """Connections, without what is secret."""

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

    async def pause(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Let it stand still; IllegalTransition where its state does not allow that."""
        ...

    async def resume(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Let it go on."""
        ...

    async def remove(self, connection_id: str, *, user_id: str | None = None) -> None:
        """Delete it with its credentials; from then on no item is registered for it."""
        ...


class CredentialStore(Protocol):
    """Connections' credentials, and who renews them."""

    async def get_sealed(self, connection_id: str, *, user_id: str) -> SealedConnection:
        """The connection with its credentials."""
        ...

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


class ConnectAttemptStore(Protocol):
    """Users who were sent to a provider's page and have not come back yet."""

    async def begin(self, attempt: ConnectAttempt, *, term: timedelta) -> None:
        """Remember a user who was sent to the provider's page."""
        ...

    async def take(
        self, state_hash: str, *, session_hash: str, user_id: str
    ) -> ConnectAttempt | None:
        """The attempt, once: it is gone afterwards. None where it expired, or is another's."""
        ...


class KeyRotationStore(Protocol):
    """Connections' credentials by the key that they are encrypted with."""

    async def list_under_other_keys(
        self, key_id: str, *, after: str, limit: int
    ) -> Sequence[SealedConnection]:
        """Connections under any other key, in the order of their ids, after the id `after`."""
        ...

    async def reseal(self, batch: Sequence[ResealedCredentials]) -> int:
        """Put them under another key, those that have not changed; how many."""
        ...

    async def count_by_key(self) -> Mapping[str, int]:
        """How many connections there are under each key."""
        ...
