"""This module serves the paths of the API for data points."""

from collections.abc import Iterator
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.errors import InvalidInput
from headgate_sandbox.google_health import rollups, tcx
from headgate_sandbox.google_health.access import reader
from headgate_sandbox.google_health.answers import invalid, not_found
from headgate_sandbox.google_health.data_types import ACTIVITY, DATA_TYPES, LOCATION, DataType
from headgate_sandbox.google_health.exercise import Exercise, point_of
from headgate_sandbox.google_health.filters import BadFilter, Bounds, parse
from headgate_sandbox.google_health.paging import place_in, token_for
from headgate_sandbox.google_health.person import Person
from headgate_sandbox.google_health.point import Point, point_shape
from headgate_sandbox.google_health.rollups import RollUp
from headgate_sandbox.google_health.world import World
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.control import read_json
from headgate_sandbox.kit.forms import digits
from headgate_sandbox.kit.routing import get, post

COLLECTION = "/v4/users/{user}/dataTypes/{type}/dataPoints"
TCX = "application/vnd.garmin.tcx+xml"

#: Every method accepts these parameters; the sandbox ignores all of them except `alt`.
_SYSTEM = frozenset(
    {"$.xgafv", "access_token", "alt", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"}
)


class Api:
    """The endpoints for data points."""

    def __init__(self, world: World) -> None:
        """Serve the data of `world`."""
        self._world = world

    def routes(self) -> list[Route]:
        """The paths; those that end in a verb come before those that end in an id."""
        return [
            get(COLLECTION, self.list_points),
            post(f"{COLLECTION}:dailyRollUp", self.daily_roll_up),
            get(f"{COLLECTION}/{{id}}:exportExerciseTcx", self.export_tcx),
            get(f"{COLLECTION}/{{id}}", self.get_point),
        ]

    async def list_points(self, request: Request) -> Response:
        """List a page of data points, newest first."""
        _bind(request, "filter", "pageSize", "pageToken")
        data_type = _type(request)
        person = self._world.person(reader(request, data_type.scope))
        if not data_type.listed:
            raise invalid("parent", f"{data_type.name} has no data points to list, only roll-ups")
        query = request.query_params
        wanted = _filter(query.get("filter", ""), data_type)
        size = _page_size(query.get("pageSize", ""), data_type)
        asked = [person.id, data_type.name, query.get("filter", "")]
        place = place_in(query.get("pageToken", ""), asked)
        page = list(islice(self._matching(person, data_type, wanted, place), size + 1))
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
        """Show one exercise by its id; other points have no id."""
        _bind(request)
        data_type = _type(request)
        person = self._world.person(reader(request, data_type.scope))
        if data_type.name != "exercise":
            raise invalid("name", f"{data_type.name} has no data points with a name")
        exercise = self._exercise(request, person)
        point = point_of(exercise, person.utc_offset_s)
        return json_answer(point_shape(point, data_type, person.id, person.utc_offset_s))

    async def export_tcx(self, request: Request) -> Response:
        """Show the TCX file itself with `alt=media`, otherwise JSON that contains it."""
        _bind(request, "partialData")
        data_type = _type(request)
        person = self._world.person(reader(request, ACTIVITY, LOCATION))
        if data_type.name != "exercise":
            raise invalid("name", "only an exercise can be exported")
        exercise = self._exercise(request, person)
        partial = request.query_params.get("partialData", "").lower() == "true"
        content = tcx.export(exercise, person, partial=partial)
        if request.query_params.get("alt") == "media":
            return Response(content, media_type=TCX)
        return json_answer({"tcxData": content.decode()})

    async def daily_roll_up(self, request: Request) -> Response:
        """List the daily roll-ups, newest first; a day without data is left out."""
        _bind(request)
        data_type = _type(request)
        person = self._world.person(reader(request, data_type.scope))
        try:
            asked = await read_json(request, RollUp)
        except InvalidInput as error:
            raise invalid(error.field, error.problem) from error
        values = [
            rollups.shape(day, data_type, found)
            for day in rollups.days_of(asked, data_type)
            if (found := self._world.on_day(person, data_type, day))
        ]
        return json_answer({"rollupDataPoints": values} if values else {})

    def _exercise(self, request: Request, person: Person) -> Exercise:
        number = digits(request.path_params["id"])
        found = None if number is None else self._world.find_exercise(person, number)
        if found is None:
            raise not_found("Data point")
        return found

    def _matching(
        self, person: Person, data_type: DataType, wanted: Bounds, place: list[int] | None
    ) -> Iterator[Point]:
        offset_s = person.utc_offset_s
        low_s, high_s = wanted.low_s - offset_s, wanted.high_s - offset_s
        if place is not None:
            high_s = min(high_s, place[0] + 1)
        for each in self._world.points(person, data_type, low_s, high_s):
            if low_s <= each.start_s < high_s and (place is None or _key(each) < place):
                yield each


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


def _filter(text: str, data_type: DataType) -> Bounds:
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


def _key(point: Point) -> list[int]:
    return [point.start_s, point.id or 0]
