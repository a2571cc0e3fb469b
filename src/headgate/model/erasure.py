"""The erasure of a user: who asked for it, and what it has deleted so far."""

from collections.abc import Mapping
from datetime import datetime

import msgspec


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """The erasure of one user. Once it has finished, nothing in it says who the user was."""

    id: str
    #: None once it has finished.
    user_id: str | None
    #: All connections that the user ever had, by which what was read for them is found.
    connection_ids: tuple[str, ...] = ()
    #: The systems that are asked to erase what they keep.
    systems: tuple[str, ...] = ()
    asked_by: str
    asked_at: datetime
    finished_at: datetime | None = None
    #: How many rows were deleted, by kind.
    deleted: Mapping[str, int] = {}
    #: The providers at which the authorization could not be revoked.
    unrevoked: tuple[str, ...] = ()
