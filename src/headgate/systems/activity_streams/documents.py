"""What the API says about activities and their streams, field by field, and what it takes."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, Field

from headgate import Item, ItemState
from headgate.systems.activity_streams.service import Activity, StreamStats
from headgate.toolkit.api.budgets import WindowDocument
from headgate.toolkit.api.documents import Name, Page, request_config, response_config


class Hint(StrEnum):
    """What to show in the place of the chart."""

    RENDER = "render"
    SPINNER = "spinner"
    RETRY = "retry"
    HIDDEN = "hidden"


HINTS = {
    ItemState.SUCCESS: Hint.RENDER,
    ItemState.PENDING: Hint.SPINNER,
    ItemState.FETCHING: Hint.SPINNER,
    ItemState.FAILED: Hint.RETRY,
    # It is tried again by itself.
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
    "error": "RateLimited: strava answered 429",
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


# ---- what is taken -----------------------------------------------------------------------------


class SyncActivities(BaseModel):
    """Whose activities."""

    model_config = request_config(_SYNC)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    connection_id: Name | None = Field(
        default=None, description="Needed only where the user has several accounts there."
    )


# ---- what is told ------------------------------------------------------------------------------


class ActivityLine(BaseModel):
    """An activity, as it stands in a list."""

    model_config = response_config(_LINE)

    id: str
    user_id: str
    connection_id: str
    external_id: str | None = Field(description="What the provider calls it.")
    start_time: datetime
    name: str | None
    sport_type: str | None
    status: ItemState = Field(description="Where its streams stand.")
    hint: Hint = Field(description="What to show in the place of a chart.")
    retry_count: int
    deferred_until: datetime | None
    next_attempt_at: datetime | None = Field(description="null: nothing happens by itself.")
    attempted_at: datetime | None
    stuck: bool = Field(description="Only an operator can set it going again.")
    error: str | None
    created_at: datetime
    updated_at: datetime


class ActivityDocument(ActivityLine):
    """An activity, with all that is known of it."""

    model_config = response_config(_ACTIVITY)

    details: dict[str, Any] | None = Field(description="As the provider tells it.")


class ActivityPage(Page[ActivityLine]):
    """Activities, in the order of their ids."""

    model_config = response_config({"data": [_LINE], "next_cursor": None})


class Downsampled(BaseModel):
    """How some of the points were chosen."""

    method: Literal["lttb"] = Field(description="Largest triangle three buckets.")
    points: int = Field(description="So many are here,")
    of: int = Field(description="of so many.")
    by: str | None = Field(description="The channel whose shape decided; all keep the same points.")


class StreamsDocument(BaseModel):
    """An activity's streams, or why there are none."""

    model_config = response_config(_STREAMS)

    activity_id: str
    status: ItemState
    hint: Hint
    source: str | None
    fetched_at: datetime | None
    channels_available: list[str] | None = Field(description="All of them, asked for or not.")
    point_count: int | None = Field(description="Of what was fetched, in each channel.")
    error: str | None
    retry_count: int
    deferred_until: datetime | None
    downsampled: Downsampled | None = Field(description="null: every point is here.")
    stream_data: dict[str, list[Any]] | None = Field(
        description="A list for each channel, all of one length; null unless `status` is success."
    )


class StreamStatsDocument(BaseModel):
    """How the streams of everybody stand."""

    model_config = response_config(_STATS)

    states: dict[ItemState, int]
    retries: dict[int, int] = Field(description="Of the failed: how many have failed so often.")
    limited_24h: int = Field(description="Answers with 429 in the last 24 hours.")
    stuck: int = Field(description="Failed for good, until they are reset.")
    windows: list[WindowDocument] = Field(description="How the provider's budget is used.")
    athletes: dict[str, dict[ItemState, int]] | None = Field(
        description="By user, for the one that was asked for: how the backfill goes."
    )


# ---- from the system's values ------------------------------------------------------------------


def line(activity: Activity) -> ActivityLine:
    """An activity in a list."""
    return ActivityLine(**_fields(activity))


def shown(activity: Activity) -> ActivityDocument:
    """An activity by itself."""
    details = None if activity.details is None else dict(activity.details)
    return ActivityDocument(**_fields(activity), details=details)


def _fields(activity: Activity) -> dict[str, Any]:
    item = activity.item
    plain = {
        name: getattr(item, name) for name in ActivityLine.model_fields if name in _OF_THE_ITEM
    }
    return {
        **plain,
        "name": told(activity, "name"),
        "sport_type": told(activity, "sport_type"),
        "status": item.state,
        "hint": HINTS[item.state],
    }


_OF_THE_ITEM = {*Item.__struct_fields__, "stuck"}


def told(activity: Activity, word: str) -> str | None:
    """What the provider says of it under that word, where it is a text."""
    value = (activity.details or {}).get(word)
    return value if isinstance(value, str) else None


def counted(stats: StreamStats) -> StreamStatsDocument:
    """The numbers."""
    windows = [
        WindowDocument(**{name: getattr(use, name) for name in WindowDocument.model_fields})
        for use in stats.windows
    ]
    return StreamStatsDocument.model_validate(
        {
            "states": stats.states,
            "retries": stats.retries,
            "limited_24h": stats.limited_24h,
            "stuck": stats.stuck,
            "windows": windows,
            "athletes": stats.athletes,
        }
    )
