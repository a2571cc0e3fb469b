"""API keys: who owns a key, and what it allows in the HTTP API."""

from datetime import datetime
from enum import StrEnum

import msgspec


class Role(StrEnum):
    """What an API key allows."""

    #: To read what belongs to its owner.
    READER = "reader"
    #: To read and change what belongs to its owner.
    USER = "user"
    #: To read and change what belongs to anybody.
    ADMIN = "admin"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as it is stored, without its secret. Fields are named as the columns."""

    id: str
    #: What the key is for, in its owner's words.
    name: str
    #: The user whose jobs the key sees; None: everybody's.
    user_id: str | None
    role: Role
    created_at: datetime
    revoked_at: datetime | None = None
