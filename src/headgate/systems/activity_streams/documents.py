"""The API's documents about activities and their streams, and its request bodies."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from pydantic import BaseModel, Field

from headgate import Item, ItemState, JsonObject
from headgate.systems.activity_streams.service import Activity, StreamStats
from headgate.toolkit import explain_item
from headgate.toolkit.api import (
    Name,
    fields_of,
    make_model,
    model_of,
    page_model,
    request_config,
    response_config,
)


class Hint(StrEnum):
    """What a client shows in place of the chart."""

    RENDER = "render"
    SPINNER = "spinner"
    RETRY = "retry"
    HIDDEN = "hidden"


HINTS = {
    ItemState.SUCCESS: Hint.RENDER,
    ItemState.PENDING: Hint.SPINNER,
    ItemState.FETCHING: Hint.SPINNER,
    ItemState.FAILED: Hint.RETRY,
    # It is retried automatically.
    ItemState.DEFERRED: Hint.SPINNER,
    ItemState.UNAVAILABLE: Hint.HIDDEN,
}

# ---- examples ----------------------------------------------------------------------------------

_CONNECTION = "conn_01JGFJ7VW0ABCDEFGHJKMNPQRS"
_ID = f"{_CONNECTION}-154504250376823"
_LINE: dict[str, Any] = {
    "id": _ID,
    "user_id": "user-abc",
    "connection_id": _CONNECTION,
    "external_id": "154504250376823",
    "start_time": "2023-10-27T06:30:00Z",
    "name": "Morning Run",
    "sport_type": "Run",
    "status": "deferred",
    "hint": "spinner",
    "retry_count": 0,
    "deferred_until": "2023-10-27T14:45:00Z",
    "next_attempt_at": "2023-10-27T14:45:00Z",
    "attempted_at": "2023-10-27T14:31:00Z",
    "stuck": False,
    "error": "The provider lets us ask for only so much at a time; "
    "going on at 2023-10-27 14:45 UTC.",
    "created_at": "2023-10-27T12:00:00Z",
    "updated_at": "2023-10-27T14:31:00Z",
}
_ACTIVITY: dict[str, Any] = {
    **_LINE,
    "details": {"name": "Morning Run", "sport_type": "Run", "distance": 8046.7},
}
_STREAMS: dict[str, Any] = {
    "activity_id": _ID,
    "status": "success",
    "hint": "render",
    "source": "strava",
    "fetched_at": "2023-10-27T14:31:00Z",
    "channels_available": ["altitude", "heartrate", "time"],
    "point_count": 3601,
    "error": None,
    "retry_count": 0,
    "deferred_until": None,
    "downsampled": {"method": "lttb", "points": 3, "of": 3601, "by": "heartrate"},
    "stream_data": {"heartrate": [120, 171, 132], "time": [0, 1800, 3600]},
}
_STATS: dict[str, Any] = {
    "states": {
        "pending": 120,
        "fetching": 1,
        "success": 560,
        "failed": 3,
        "deferred": 12,
        "unavailable": 4,
    },
    "retries": {"1": 2, "3": 1},
    "limited_24h": 12,
    "stuck": 1,
    "windows": [],
    "athletes": {"user-abc": {"pending": 120, "success": 560}},
}
_SYNC: dict[str, Any] = {"connection_id": _CONNECTION}


# ---- requests ----------------------------------------------------------------------------------


class SyncActivities(BaseModel):
    """The user, and the connection, whose activities to sync."""

    model_config = request_config(_SYNC)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    connection_id: Name | None = Field(
        default=None, description="Needed only where the user has several accounts there."
    )


# ---- responses ---------------------------------------------------------------------------------


class ActivityLine(msgspec.Struct, frozen=True, kw_only=True):
    """An activity in a list."""

    id: str
    user_id: str
    connection_id: str
    external_id: Annotated[str | None, Meta(description="The provider's id of the activity.")]
    start_time: datetime
    name: str | None
    sport_type: str | None
    status: Annotated[ItemState, Meta(description="The state of its streams.")]
    hint: Annotated[Hint, Meta(description="What to show in place of a chart.")]
    retry_count: int
    deferred_until: datetime | None
    next_attempt_at: Annotated[datetime | None, Meta(description="null: no fetch is planned.")]
    attempted_at: datetime | None
    stuck: Annotated[
        bool, Meta(description="Whether it has failed for good, until an operator resets it.")
    ]
    error: Annotated[
        str | None, Meta(description="For the user: what happened, what happens next.")
    ]
    created_at: datetime
    updated_at: datetime


class ActivityDocument(ActivityLine, frozen=True, kw_only=True):
    """An activity with its details."""

    details: Annotated[JsonObject | None, Meta(description="The provider's own fields.")]


ActivityModel = model_of(ActivityDocument, _ACTIVITY)
ActivityPageModel = page_model(
    "ActivityPage",
    "Activities, in the order of their ids.",
    model_of(ActivityLine, _LINE),
    _LINE,
)
StreamStatsModel = make_model(
    "StreamStatsDocument", StreamStats.__doc__, _STATS, fields_of(StreamStats)
)


class Downsampled(BaseModel):
    """How the points were chosen."""

    method: Literal["lttb"] = Field(description="Largest triangle three buckets.")
    points: int = Field(description="The number of points in this document.")
    of: int = Field(description="The number of points that were recorded.")
    by: str | None = Field(description="The channel by whose shape the points were chosen.")


class StreamsDocument(BaseModel):
    """An activity's streams, or why there are none."""

    model_config = response_config(_STREAMS)

    activity_id: str
    status: ItemState
    hint: Hint
    source: str | None
    fetched_at: datetime | None
    channels_available: list[str] | None = Field(description="All channels, selected or not.")
    point_count: int | None = Field(description="The recorded points of each channel.")
    error: str | None
    retry_count: int
    deferred_until: datetime | None
    downsampled: Downsampled | None = Field(description="null: every point is here.")
    stream_data: dict[str, list[Any]] | None = Field(
        description="A list for each channel, all of equal length; null unless `status` is success."
    )


# ---- from the system's values ------------------------------------------------------------------


def to_activity_line(activity: Activity) -> ActivityLine:
    """Build the document of an activity in a list."""
    return ActivityLine(**_fields(activity))


def to_activity_document(activity: Activity) -> ActivityDocument:
    """Build the document of one activity."""
    return ActivityDocument(**_fields(activity), details=activity.details)


def _fields(activity: Activity) -> dict[str, Any]:
    item = activity.item
    plain = {
        name: getattr(item, name) for name in ActivityLine.__struct_fields__ if name in _ITEM_FIELDS
    }
    return {
        **plain,
        "name": detail_text(activity, "name"),
        "sport_type": detail_text(activity, "sport_type"),
        "status": item.state,
        "error": explain_item(item),
        "hint": HINTS[item.state],
    }


_ITEM_FIELDS = {*Item.__struct_fields__, "stuck"}


def detail_text(activity: Activity, word: str) -> str | None:
    """Return a field of the provider's details, if it is a text."""
    value = (activity.details or {}).get(word)
    return value if isinstance(value, str) else None
