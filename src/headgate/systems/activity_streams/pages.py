"""The page of one activity: its facts, and a chart of its recording.

The page is complete without JavaScript: the numbers are in a table, and a form chooses the
channels. A script draws the chart, from the same points as the API.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from fastapi import Request
from fastapi.responses import Response

from headgate import Item, ItemState
from headgate.systems.activity_streams.documents import HINTS, Hint, detail_text
from headgate.systems.activity_streams.downsampling import TIME
from headgate.systems.activity_streams.names import ACTIVITY_LINK, ACTIVITY_PATH
from headgate.systems.activity_streams.service import (
    Activity,
    ActivityStreams,
    StreamDocument,
    Streams,
)
from headgate.systems.activity_streams.serving import (
    RESOLUTIONS,
    Selection,
    channels_of,
    downsample,
    streams_response,
)
from headgate.toolkit import Site, format_time, note_visit
from headgate.toolkit.pages import (
    FRAGMENT_HEADER,
    POLL_RESTING_S,
    POLL_WORKING_S,
    Mark,
    PageRouter,
    Pages,
    Tile,
    etag,
    page_response,
)

CHART_POINTS = RESOLUTIONS["medium"]
TABLE_POINTS = 50
#: How many channels are drawn by default: two, because a chart has room for two scales.
CHOSEN = 2


class Channel(msgspec.Struct, frozen=True):
    """The label and unit of a channel."""

    label: str
    unit: str
    #: Converts the provider's unit to this one.
    factor: float = 1.0
    digits: int = 0


#: The channels that can be drawn, the most interesting first.
CHANNELS: dict[str, Channel] = {
    "heartrate": Channel("Heart rate", "bpm"),
    "altitude": Channel("Altitude", "m", digits=1),
    "velocity_smooth": Channel("Speed", "km/h", 3.6, 1),
    "watts": Channel("Power", "W"),
    "cadence": Channel("Cadence", "rpm"),
    "grade_smooth": Channel("Gradient", "%", digits=1),
    "temp": Channel("Temperature", "°C"),
    "distance": Channel("Distance", "km", 0.001, 2),
}


#: The time, and a number for each channel.
Row = tuple[str, ...]


class Choice(msgspec.Struct, frozen=True):
    """A channel that can be chosen."""

    name: str
    channel: Channel
    chosen: bool


class Panel(msgspec.Struct, frozen=True):
    """The chart's channels and the table of numbers."""

    choices: tuple[Choice, ...]
    #: The columns after the time.
    columns: tuple[Channel, ...]
    rows: tuple[Row, ...]
    note: str


class ActivityView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the activity page shows."""

    activity_id: str
    title: str
    name: str
    what: str
    mark: Mark
    hint: Hint
    #: Why there is no recording yet; None if there is one.
    sentence: str | None
    tiles: tuple[Tile, ...]
    panel: Panel | None
    poll_after_s: int | None


class ActivityWebPage:
    """Shows an activity."""

    def __init__(self, site: Site, pages: Pages) -> None:
        """Serve the activities of the site's application."""
        self._app, self._links = site.app, site.links
        self._activities = ActivityStreams(site.app)
        self._pages = pages

    async def show(self, request: Request) -> Response:
        """Return the whole page, or only the part that changes."""
        token = request.path_params["token"]
        streams = await self._find(token)
        await note_visit(self._app, request, streams.item.user_id)
        activity = await self._activities.describe(streams.item)
        asked = request.query_params.getlist("channel")
        shown = activity_view(activity, streams.document, asked)
        main = self._pages.render("activity_main.html", view=shown, token=token)
        if request.headers.get(FRAGMENT_HEADER):
            return page_response(request, main)
        page = self._pages.render("activity.html", view=shown, main=main, etag=etag(main))
        return page_response(request, page)

    async def streams(self, request: Request) -> Response:
        """Return the points of the chart."""
        streams = await self._find(request.path_params["token"])
        return streams_response(request, streams, Selection((*CHANNELS, TIME), CHART_POINTS))

    async def _find(self, token: str) -> Streams:
        link = self._links.open_page(ACTIVITY_LINK, token)
        return await self._activities.streams(link.id, user_id=link.user_id)


def pages(site: Site) -> PageRouter:
    """Return the routes of the system's pages."""
    rendered = Pages(site, Path(__file__).parent)
    page, router = ActivityWebPage(site, rendered), PageRouter(rendered)
    router.add(f"{ACTIVITY_PATH}{{token}}", page.show, "GET", "HEAD")
    router.add(f"{ACTIVITY_PATH}{{token}}/streams", page.streams, "GET", "HEAD")
    return router


# ---- texts -------------------------------------------------------------------------------------

_MARKS = {
    ItemState.PENDING: Mark("In the queue", "clock", "calm"),
    ItemState.FETCHING: Mark("Fetching", "arrow", "calm"),
    ItemState.SUCCESS: Mark("Recorded", "check", "good"),
    ItemState.FAILED: Mark("Not fetched", "cross", "bad"),
    ItemState.DEFERRED: Mark("Waiting", "clock", "wait"),
    ItemState.UNAVAILABLE: Mark("No recording", "stop", "quiet"),
}


def activity_view(
    activity: Activity, document: StreamDocument | None, asked: Sequence[str] = ()
) -> ActivityView:
    """Return everything that the page shows; `asked` are the channels that the user chose."""
    item = activity.item
    name = detail_text(activity, "name") or "Activity"
    return ActivityView(
        activity_id=item.id,
        title=f"{_MARKS[item.state].word} · {name}",
        name=name,
        what=_what(activity),
        mark=_MARKS[item.state],
        hint=HINTS[item.state],
        sentence=_sentence(item),
        tiles=_tiles(activity.details or {}),
        panel=None if document is None else _panel(document, asked),
        poll_after_s=_poll_after_s(item),
    )


def _what(activity: Activity) -> str:
    began = format_time(activity.item.start_time.replace(second=0, microsecond=0))
    sport = detail_text(activity, "sport_type")
    return f"{sport} · {began}" if sport else began


def _sentence(item: Item) -> str | None:
    match item.state:
        case ItemState.PENDING | ItemState.FETCHING:
            return "The recording is on its way. It appears here by itself."
        case ItemState.DEFERRED:
            return f"Strava limits how much we may fetch; we go on {_at(item.deferred_until)}."
        case ItemState.FAILED if not item.stuck:
            return f"The recording could not be fetched. We try again {_at(item.next_attempt_at)}."
        case ItemState.FAILED:
            return (
                "The recording could not be fetched, and we do not try again by ourselves. "
                "For another try, send the support code below to where you got this link."
            )
        case _:
            return None


def _at(when: datetime | None) -> str:
    return "soon" if when is None else f"at {format_time(when)}"


def _poll_after_s(item: Item) -> int | None:
    if HINTS[item.state] is Hint.SPINNER:
        return POLL_RESTING_S if item.state is ItemState.DEFERRED else POLL_WORKING_S
    return POLL_RESTING_S if item.state is ItemState.FAILED and not item.stuck else None


def _tiles(details: Mapping[str, object]) -> tuple[Tile, ...]:
    """Return the provider's totals, as far as it has them."""
    found = []
    if (metres := _number(details, "distance")) is not None:
        found.append(
            Tile(
                name="distance", label="Distance", value=f"{metres / 1000:,.2f}\N{NO-BREAK SPACE}km"
            )
        )
    if (seconds := _number(details, "moving_time")) is not None:
        found.append(Tile(name="moving", label="Moving time", value=duration_text(seconds)))
    if (metres := _number(details, "total_elevation_gain")) is not None:
        found.append(Tile(name="climb", label="Climb", value=f"{metres:,.0f}\N{NO-BREAK SPACE}m"))
    return tuple(found)


def _number(details: Mapping[str, object], word: str) -> float | None:
    value = details.get(word)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


# ---- numbers -----------------------------------------------------------------------------------


def _panel(document: StreamDocument, asked: Sequence[str]) -> Panel:
    there = [name for name in CHANNELS if name in document.attributes.channels]
    # If none of the chosen channels exists, show the default ones.
    chosen = [name for name in there if name in asked] or there[:CHOSEN]
    raws, size = channels_of(document), document.attributes.point_count
    named = [*chosen, *(name for name in (TIME,) if name in raws)]
    points, _ = downsample(raws, named, min(TABLE_POINTS, size), of=size)
    return Panel(
        choices=tuple(Choice(name, CHANNELS[name], name in chosen) for name in there),
        columns=tuple(CHANNELS[name] for name in chosen),
        rows=_rows(points, chosen),
        note=f"{size:,} points were recorded" + _fewer(size),
    )


def _fewer(size: int) -> str:
    if size <= TABLE_POINTS:
        return "."
    return f"; the table has {TABLE_POINTS} of them, chosen so that peaks are kept."


def _rows(points: Mapping[str, Sequence[object]], chosen: Sequence[str]) -> tuple[Row, ...]:
    count = len(next(iter(points.values()), ()))
    times = points.get(TIME) or range(count)
    columns = [[_value_text(CHANNELS[name], value) for value in points[name]] for name in chosen]
    begins = [duration_text(at) if isinstance(at, int | float) else "" for at in times]
    return tuple(zip(begins, *columns, strict=True))


def _value_text(channel: Channel, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f"{value * channel.factor:,.{channel.digits}f}"


def duration_text(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
