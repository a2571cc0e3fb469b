"""The view of a record and of a page of records, for the API and for `--json`."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.base.encoding import JsonObject, to_json
from headgate.base.errors import InvalidInput
from headgate.flow.registry import Sync, title_of
from headgate.model.record import RecordRow
from headgate.ports.records.store import RecordPosition

NUL = "\0"
_position = msgspec.json.Decoder(tuple[str, str | None])


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was read from a provider, as it is stored."""

    sync: Annotated[str, Meta(description="The sync that read it.")]
    user_id: str
    connection_id: str
    key: Annotated[str, Meta(description="Stays the same when the record is read again.")]
    data: Annotated[JsonObject, Meta(description="What the source made of it.")]
    created_at: Annotated[datetime, Meta(description="When it was first stored.")]
    updated_at: Annotated[datetime, Meta(description="When its content last changed.")]


class RecordPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records, in the order of their connections and keys."""

    data: Annotated[
        Sequence[RecordView],
        Meta(description="May be short, or empty, although there are more: see `next_cursor`."),
    ]
    next_cursor: Annotated[str | None, Meta(description="null: there are no more.")]
    note: Annotated[
        str | None, Meta(description="Where the records of this sync go, if not here; else null.")
    ]


def record_view(row: RecordRow, sync: str) -> RecordView:
    """The view of a record of that sync, which may share its records with others."""
    return RecordView(
        sync=sync,
        user_id=row.user_id,
        connection_id=row.connection_id,
        key=row.key,
        data=row.data,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def note_of(sync: Sync) -> str | None:
    """Where the records of the sync go, if not into Headgate's own table of records."""
    if sync.destination is not None:
        return (
            f"The records of {sync.name} are written to {title_of(sync.destination)}, and not "
            "stored here. Here is only what the source keeps for itself."
        )
    if sync.table is not None:
        return (
            f"The records of {sync.name} are in a table of its system's own, which the commands "
            "and the API of that system show. Here is only what the source keeps for itself."
        )
    return None


def shorten(page: RecordPage, bytes_max: int) -> RecordPage:
    """The page with as many of its records as fit into so many bytes of JSON, but at least one."""
    left = bytes_max
    for number, each in enumerate(page.data):
        left -= len(to_json(each).encode())
        if left < 0 and number > 0:
            last = page.data[number - 1]
            cursor = cursor_of(RecordPosition(last.connection_id, last.key))
            return msgspec.structs.replace(page, data=page.data[:number], next_cursor=cursor)
    return page


def cursor_of(position: RecordPosition) -> str:
    """The position as callers send it back."""
    place = msgspec.json.encode((position.connection_id, position.key))
    return urlsafe_b64encode(place).decode().rstrip("=")


def read_cursor(text: str) -> RecordPosition:
    """The position of a cursor; InvalidInput if it is none of ours.

    It is not signed: whose records are shown is decided by the query, wherever it begins.
    """
    try:
        place = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        connection_id, key = _position.decode(place)
        # Postgres takes none in a text.
        if NUL in f"{connection_id}{key}":
            raise ValueError
    except ValueError:
        raise InvalidInput("after", "is not a `next_cursor` of this list") from None
    return RecordPosition(connection_id, key)
