"""Connections: a connection links a user to their account at a provider.

Its credentials are a separate value, and are stored only encrypted.
"""

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
    #: The user or an operator paused it, or resumed it.
    OPERATOR = "operator"
    RESUMED = "resumed"
    #: The provider refused to exchange the refresh token.
    GRANT_REFUSED = "grant_refused"
    #: The provider refused tokens that it had just issued.
    ACCESS_REFUSED = "access_refused"
    #: The access token has expired, and there is no refresh token to renew it with.
    EXPIRED = "expired"


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection as it is stored, without its credentials. Fields are named as the columns."""

    id: str
    user_id: str
    #: The provider's name.
    source: str
    state: ConnectionState
    reason: ConnectionReason
    #: The provider's message when it refused the credentials, redacted.
    error: str | None = None
    #: The provider's id of the account, if it says so.
    external_id: str | None = None
    #: The scopes that the user granted, which may be fewer than were requested.
    scopes: tuple[str, ...] = ()
    #: When the access token expires, by our clock; None: never.
    expires_at: datetime | None = None
    #: Goes up whenever the credentials change; a write based on an older version is refused.
    version: int = 1
    created_at: datetime
    updated_at: datetime


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a provider issues for a user's account."""

    access: Secret
    #: None: the tokens cannot be renewed; in the answer to a refresh, the old one stays valid.
    refresh: Secret | None = None
    #: None: the access token does not expire.
    expires_at: datetime | None = None
    #: None: the provider did not say.
    scopes: tuple[str, ...] | None = None
    external_id: str | None = None


class SealedCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """A connection's credentials as they are stored: encrypted, with the id of the key."""

    access: bytes
    refresh: bytes | None
    key_id: str


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a ciphertext in the database; it can be decrypted for that place alone."""

    user_id: str
    source: str
    #: The id of the connection, or of another row.
    row_id: str
    column: str
