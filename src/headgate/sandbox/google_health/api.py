"""This module serves the paths of the API for data points and identity."""

from collections.abc import Iterator
from itertools import islice

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.errors import InvalidInput
from headgate.sandbox.google_health import rollups, tcx
from headgate.sandbox.google_health.access import reader
from headgate.sandbox.google_health.answers import invalid, not_found
from headgate.sandbox.google_health.data_types import ACTIVITY, DATA_TYPES, LOCATION, DataType, Kind
from headgate.sandbox.google_health.filters import BadFilter, Filter, parse
from headgate.sandbox.google_health.paging import place_in, token_for
from headgate.sandbox.google_health.person import Person
from headgate.sandbox.google_health.point import Point, point_shape
from headgate.sandbox.google_health.rollups import RollUp, Window
from headgate.sandbox.google_health.world import World
from headgate.sandbox.kit.answers import json_answer
from headgate.sandbox.kit.control import read_json
from headgate.sandbox.kit.forms import digits
from headgate.sandbox.kit.routing import get, post

COLLECTION = "/v4/users/{user}/dataTypes/{type}/dataPoints"
TCX = "application/vnd.garmin.tcx+xml"

#: Every method accepts these parameters; the sandbox ignores all of them except `alt`.
_SYSTEM = frozenset(
    {"$.xgafv", "access_token", "alt", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"}
)
#: The most data points that one request deletes.
DELETED_MAX = 10_000
_EMPTY = {"response": {"@type": "type.googleapis.com/google.protobuf.Empty"}}
_FAMILIES = ("all-sources", "google-wearables", "google-sources", "self-sources")


class _BatchDelete(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: list[str] = []


class Api:
    """The endpoints for data points and identity."""

    def __init__(self, world: World) -> None:
        """Serve the data of `world`."""
        self._world = world

    def routes(self) -> list[Route]:
        """The paths; those that end in a verb come before those that end in an id."""
        return [
            get("/v4/users/{user}/identity", self.identity),
            get(COLLECTION, self.list_points),
            post(f"{COLLECTION}:dailyRollUp", self.daily_roll_up),
            post(f"{COLLECTION}:batchDelete", self.batch_delete),
            get(f"{COLLECTION}/{{id}}:exportExerciseTcx", self.export_tcx),
            get(f"{COLLECTION}/{{id}}", self.get_point),
        ]

    async def identity(self, request: Request) -> Response:
        """Show the Health user id of the token's user, and their former Fitbit id."""
        _bind(request)
        user = reader(request)
        legacy = f"FB{int(user):X}"
        shown = {"name": "users/me/identity", "healthUserId": user, "legacyUserId": legacy}
        return json_answer(shown)

    async def list_points(self, request: Request) -> Response:
        """List a page of data points, newest first."""
        _bind(request, "filter", "pageSize", "pageToken", "dataSourceFamily")
        data_type = _type(request)
        person = self._world.person(reader(request, data_type.scope))
        if not data_type.listed:
            raise invalid("parent", f"{data_type.name} has no data points to list, only roll-ups")
        query = request.query_params
        family = _family(query.get("dataSourceFamily", ""))
        if family and data_type.name == "sleep":
            raise invalid("data_source_family", "not supported for sleep")
        wanted = _filter(query.get("filter", ""), data_type)
        size = _page_size(query.get("pageSize", ""), data_type)
        asked = [person.id, data_type.name, query.get("filter", ""), family]
        place = place_in(query.get("pageToken", ""), asked)
        found = self._matching(person, data_type, wanted, place)
        page = list(islice((each for each in found if _is_of(each, family)), size + 1))
        shown: dict[str, object] = {}
        if page:
            offset_s = person.utc_offset_s
            shown["dataPoints"] = [
                point_shape(each, data_type, person.id, offset_s) for each in page[:size]
            ]
        if len(page) > size:
            shown["nextPageToken"] = token_for(asked, _key(page[size - 1]))
        return json_answer(shown)

    async def get_point(self, request: Request) -> Response:
        """Show one session by its id; other points have no id."""
        _bind(request)
        data_type = _type(request)
        person = self._world.person(reader(request, data_type.scope))
        if data_type.kind is not Kind.SESSION:
            raise invalid("name", f"{data_type.name} has no data points with a name")
        found = self._world.find(person, data_type, _id(request))
        if found is None:
            raise not_found("Data point")
        return json_answer(point_shape(found, data_type, person.id, person.utc_offset_s))

    async def export_tcx(self, request: Request) -> Response:
        """Show the TCX file itself with `alt=media`, otherwise JSON that contains it."""
        _bind(request, "partialData")
        data_type = _type(request)
        person = self._world.person(reader(request, ACTIVITY, LOCATION))
        if data_type.name != "exercise":
            raise invalid("name", "only an exercise can be exported")
        exercise = self._world.find_exercise(person, _id(request))
        if exercise is None:
            raise not_found("Data point")
        partial = request.query_params.get("partialData", "").lower() == "true"
        content = tcx.export(exercise, person, partial=partial)
        if request.query_params.get("alt") == "media":
            return Response(content, media_type=TCX)
        return json_answer({"tcxData": content.decode()})

    async def batch_delete(self, request: Request) -> Response:
        """Delete sessions by their names: all of them or, if one does not exist, none."""
        _bind(request)
        data_type = _type(request)
        if data_type.write_scope is None:
            raise invalid("parent", f"{data_type.name} has no data points with a name")
        person = self._world.person(reader(request, data_type.write_scope))
        try:
            names = (await read_json(request, _BatchDelete)).names
        except InvalidInput as error:
            raise invalid(error.field, error.problem) from error
        if not 1 <= len(names) <= DELETED_MAX:
            raise invalid("names", f"name between 1 and {DELETED_MAX:,} data points")
        sessions = [_session(name, data_type, person) for name in names]
        if not all(self._world.find(person, data_type, session) for session in sessions):
            raise not_found("Data point")
        for session in sessions:
            self._world.delete(data_type, session)
        # Google calls it a long-running operation; there is nothing to wait for.
        return json_answer({"name": f"operations/delete-{sessions[0]}", "done": True, **_EMPTY})

    async def daily_roll_up(self, request: Request) -> Response:
        """List a page of daily roll-ups, newest first; a window without data is left out."""
        _bind(request)
        data_type = _type(request)
        person = self._world.person(reader(request, data_type.scope))
        try:
            asked = await read_json(request, RollUp)
        except InvalidInput as error:
            raise invalid(error.field, error.problem) from error
        windows = rollups.windows_of(asked, data_type)
        size = rollups.page_size_of(asked, data_type)
        family = _family(asked.data_source_family)
        mark = [person.id, data_type.name, asked.range, asked.window_size_days, family]
        place = place_in(asked.page_token, mark)
        if place is not None:
            windows = [window for window in windows if [window.start_s] < place]
        page = windows[:size]
        shown: dict[str, object] = {}
        values = [
            rollups.shape(window, data_type, found)
            for window in page
            if (found := self._within(person, data_type, window, family))
        ]
        if values:
            shown["rollupDataPoints"] = values
        if len(windows) > size:
            shown["nextPageToken"] = token_for(mark, [page[-1].start_s])
        return json_answer(shown)

    def _matching(
        self, person: Person, data_type: DataType, wanted: Filter, place: list[int] | None
    ) -> Iterator[Point]:
        offset_s = person.utc_offset_s
        low_s, high_s = wanted.span(offset_s)
        if place is not None:
            high_s = min(high_s, place[0] + 1)
        for each in self._world.points(person, data_type, low_s, high_s):
            if wanted.holds(each, offset_s) and (place is None or _key(each) < place):
                yield each

    def _within(
        self, person: Person, data_type: DataType, window: Window, family: str
    ) -> list[Point]:
        offset_s = person.utc_offset_s
        return [
            each
            for day in window.days
            for each in self._world.on_day(person, data_type, day)
            if window.start_s <= each.start_s + offset_s < window.end_s and _is_of(each, family)
        ]


def _bind(request: Request, *names: str) -> None:
    """Refuse parameters that the method does not have, as Google does."""
    unknown = set(request.query_params) - _SYSTEM - set(names)
    if unknown:
        name = min(unknown)
        raise invalid(name, f'Unknown name "{name}": Cannot bind query parameter.')


def _type(request: Request) -> DataType:
    name = request.path_params["type"]
    if name not in DATA_TYPES:
        raise invalid("parent", f"there is no data type {name!r} here")
    return DATA_TYPES[name]


def _id(request: Request) -> int:
    number = digits(request.path_params["id"])
    if number is None:
        raise not_found("Data point")
    return number


def _session(name: str, data_type: DataType, person: Person) -> int:
    """The id in the name of a data point, which must be this person's and of this type."""
    parent, _, last = name.rpartition("/")
    owners = [f"users/{user}/dataTypes/{data_type.name}/dataPoints" for user in ("me", person.id)]
    number = digits(last)
    if parent not in owners or number is None:
        raise invalid("names", f"{name!r} is not the name of such a data point of this user")
    return number


def _filter(text: str, data_type: DataType) -> Filter:
    try:
        return parse(text, data_type)
    except BadFilter as error:
        raise invalid("filter", str(error)) from error


def _page_size(text: str, data_type: DataType) -> int:
    """The requested page size, at most the maximum; zero or nothing means the default."""
    try:
        size = int(text or 0)
    except ValueError:
        raise invalid("page_size", "not a whole number") from None
    if size < 0:
        raise invalid("page_size", "must not be negative")
    return min(size or data_type.page_size, data_type.page_size_max)


def _family(text: str) -> str:
    """The last part of a data source family's name; empty for all of them."""
    if not text:
        return ""
    name = text.rpartition("/dataSourceFamilies/")[2]
    if not text.startswith("users/") or name not in _FAMILIES:
        raise invalid("data_source_family", f"must be one of {', '.join(_FAMILIES)}")
    return name


def _is_of(point: Point, family: str) -> bool:
    """Whether the point comes from that family of sources; no point here is from a client."""
    if family == "google-wearables":
        return not point.manual
    return family != "self-sources"


def _key(point: Point) -> list[int]:
    return [point.start_s, point.id or 0]
