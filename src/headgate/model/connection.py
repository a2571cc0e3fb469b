"""A connection: a user's link to a provider. Its credentials are kept apart, and only encrypted."""

from datetime import datetime
from enum import StrEnum

import msgspec

from headgate.base.secret import Secret
from headgate.model.states import ConnectionState


class ConnectionReason(StrEnum):
    """Why a connection is in its state."""

    #: The user connected the account, for the first time or again.
    CONNECTED = "connected"
    #: New tokens came in although the old ones had been refused.
    RENEWED = "renewed"
    #: Its user or an operator paused it, or let it go on.
    OPERATOR = "operator"
    RESUMED = "resumed"
    #: The provider refused to exchange the refresh token.
    GRANT_REFUSED = "grant_refused"
    #: The provider refused tokens that it had only just given out.
    ACCESS_REFUSED = "access_refused"
    #: The access token has run out, and there is nothing to renew it with.
    EXPIRED = "expired"


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection as the store holds it, without what is secret. Fields are named as columns."""

    id: str
    user_id: str
    #: The provider's name.
    source: str
    state: ConnectionState
    reason: ConnectionReason
    #: What the provider said when it refused, redacted.
    error: str | None = None
    #: What the provider calls the account, where it says so.
    external_id: str | None = None
    #: What the user allowed, which may be less than was asked for.
    scopes: tuple[str, ...] = ()
    #: When the access token ends, by our clock; None: not by itself.
    expires_at: datetime | None = None
    #: Goes up whenever the credentials change: what was decided on older ones is refused.
    version: int = 1
    created_at: datetime
    updated_at: datetime


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider gives to whoever may act for a user."""

    access: Secret
    #: None: these cannot be renewed; or, in answer to a refresh, the old one stays good.
    refresh: Secret | None = None
    #: None: it does not end by itself.
    expires_at: datetime | None = None
    #: None: the provider did not say.
    scopes: tuple[str, ...] | None = None
    external_id: str | None = None


class SealedCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """A connection's credentials as they are stored: encrypted, and with which key."""

    access: bytes
    refresh: bytes | None
    key_id: str


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Where a ciphertext belongs. It can be opened there, and nowhere else."""

    user_id: str
    source: str
    #: The connection, or what else the row is called.
    row_id: str
    column: str
