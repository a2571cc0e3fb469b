"""The stores of connections and of their encrypted credentials, one port for each use.

Every method is one atomic, durable operation. With a `user_id`, another user's connection is
NotFound. A write of credentials names the version that it is based on; if the row has a newer
version, the race was lost and nothing is written, which is not an error.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from headgate.model.connection import Connection, ConnectionReason, SealedCredentials


class NewConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection to store, with its credentials."""

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
    #: None: unchanged.
    scopes: tuple[str, ...] | None = None
    external_id: str | None = None


class SealedConnection(msgspec.Struct, frozen=True):
    """A connection with its credentials, still encrypted."""

    connection: Connection
    sealed: SealedCredentials


class ResealedCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """The same credentials, encrypted with another key."""

    connection_id: str
    #: The version and the key that were read.
    version: int
    old_key_id: str
    sealed: SealedCredentials


class ConnectAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A user's visit to the provider's consent page."""

    state_hash: str
    session_hash: str
    user_id: str
    source: str
    #: The connection to connect again; None for a new one.
    connection_id: str | None
    redirect_uri: str
    sealed_verifier: bytes


class ConnectionStore(Protocol):
    """Connections, without their credentials."""

    async def add(self, new: NewConnection, *, in_person: bool = False) -> Connection | None:
        """Store a connection; None if the user has connected that account already.

        The user is stored with it, if they are new; if they came `in_person`, their login is too.
        """
        ...

    async def reconnect(
        self, connection_id: str, renewal: Renewal, *, user_id: str, in_person: bool = False
    ) -> Connection | None:
        """Store new credentials and make it active; None if they belong to another account.

        The user is stored as by `add`.
        """
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
        """All users' connections to that account, which an event of the provider concerns."""
        ...

    async def list_connections(
        self, user_id: str | None, *, limit: int, after: str | None = None
    ) -> Sequence[Connection]:
        """A user's connections, or all, in the order of their ids, after the id `after`."""
        ...

    async def find_many(self, ids: Sequence[str], user_ids: Sequence[str]) -> Sequence[Connection]:
        """The connections with these ids, and all connections of these users.

        In the order of their ids. Any number of ids and users; an id that is not there is left out.
        """
        ...

    async def pause(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Pause the connection; IllegalTransition if its state does not allow that."""
        ...

    async def resume(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Resume the connection; IllegalTransition if its state does not allow that."""
        ...

    async def remove(self, connection_id: str, *, user_id: str | None = None) -> None:
        """Delete the connection and its credentials; no item is registered for it afterwards."""
        ...


class CredentialStore(Protocol):
    """The credentials of connections, and the lease of the worker that renews them."""

    async def get_sealed(self, connection_id: str, *, user_id: str) -> SealedConnection:
        """The connection with its encrypted credentials."""
        ...

    async def lease(
        self, connection_id: str, *, version: int, holder: str, term: timedelta
    ) -> bool:
        """Take the lease to renew these credentials; False if another has it, or they changed."""
        ...

    async def release(self, connection_id: str, *, holder: str) -> None:
        """Release the lease, if `holder` still has it."""
        ...

    async def renew(
        self, connection_id: str, renewal: Renewal, *, version: int
    ) -> Connection | None:
        """Store new credentials and end the lease; None if there are newer ones.

        The lease is not checked: a worker whose lease expired while the provider answered has the
        only valid tokens there are.
        """
        ...

    async def refuse(
        self, connection_id: str, *, version: int, reason: ConnectionReason, error: str
    ) -> Connection | None:
        """Record that the provider refuses these credentials; None if there are newer ones."""
        ...


class ConnectAttemptStore(Protocol):
    """Visits to a provider's consent page from which the user has not come back yet."""

    async def begin(self, attempt: ConnectAttempt, *, term: timedelta) -> None:
        """Store an attempt, which expires after `term`."""
        ...

    async def take(
        self, state_hash: str, *, session_hash: str, user_id: str
    ) -> ConnectAttempt | None:
        """Delete and return the attempt; None if it expired or belongs to another user."""
        ...


class KeyRotationStore(Protocol):
    """The credentials of connections, by the key that encrypts them."""

    async def list_under_other_keys(
        self, key_id: str, *, after: str, limit: int
    ) -> Sequence[SealedConnection]:
        """Connections whose credentials use another key, by id, after the id `after`."""
        ...

    async def reseal(self, batch: Sequence[ResealedCredentials]) -> int:
        """Replace the credentials that have not changed since; returns how many."""
        ...

    async def count_by_key(self) -> Mapping[str, int]:
        """The number of connections for each key."""
        ...
