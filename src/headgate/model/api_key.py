"""Who may call the HTTP API: keys, whose they are, and what they allow."""

from datetime import datetime
from enum import StrEnum

import msgspec


class Role(StrEnum):
    """What a key allows."""

    #: To read what is its owner's.
    READER = "reader"
    #: To read and to act on what is its owner's.
    USER = "user"
    #: To read and to act on everybody's.
    ADMIN = "admin"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as the store holds it, without what is secret. Fields are named as columns."""

    id: str
    #: What it is for, in its owner's words.
    name: str
    #: Whose jobs it sees; None: everybody's.
    user_id: str | None
    role: Role
    created_at: datetime
    revoked_at: datetime | None = None
