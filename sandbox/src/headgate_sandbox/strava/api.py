"""This module serves the paths of Strava's API for athletes and activities."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.answers import Answered, json_answer
from headgate_sandbox.kit.forms import read_form
from headgate_sandbox.kit.routing import get, post
from headgate_sandbox.strava import shapes
from headgate_sandbox.strava.access import PROFILE, grant_of, may_see, reader, writer
from headgate_sandbox.strava.activity import Activity
from headgate_sandbox.strava.answers import bad_request, fault, not_found
from headgate_sandbox.strava.streams import Points
from headgate_sandbox.strava.world import NewActivity, World

PER_PAGE = 30
PER_PAGE_MAX = 200
#: The end of the year 9999: beyond any date here, and a moment that a database can hold.
EPOCH_S_MAX = 253_402_300_799

CREATE_ACTIVITY = "/api/v3/activities"

#: Strava's names for the fields of a new activity.
_FIELDS = {
    "elapsed_s": "elapsed_time",
    "distance_m": "distance",
    "start": "start_date_local",
}

Made = Callable[[NewActivity], Activity]


class Api:
    """The endpoints for athletes and activities."""

    def __init__(self, world: World, add_activity: Made) -> None:
        """Serve `world`; `add_activity` makes an activity and notifies the subscribers."""
        self._world = world
        self._add_activity = add_activity

    def routes(self) -> list[Route]:
        """The paths."""
        return [
            get("/api/v3/athlete", self.athlete),
            get("/api/v3/athlete/activities", self.activities),
            post(CREATE_ACTIVITY, self.create),
            get("/api/v3/activities/{id:int}", self.activity),
            get("/api/v3/activities/{id:int}/laps", self.laps),
            get("/api/v3/activities/{id:int}/streams", self.streams),
        ]

    async def athlete(self, request: Request) -> Response:
        """Show the athlete that the token belongs to."""
        grant = grant_of(request)
        athlete = self._world.archive(int(grant.user)).athlete
        detailed = PROFILE in grant.scopes
        return json_answer(
            shapes.athlete_detail(athlete) if detailed else shapes.athlete_summary(athlete)
        )

    async def activities(self, request: Request) -> Response:
        """List a page of activities, newest first; with `after` and no `before`, oldest first.

        Activities that the token may not see are removed after the page is cut, so a short page
        is not the end; only `[]` is.
        """
        grant = reader(request)
        after_s = _whole(request, "after", None, low=-EPOCH_S_MAX, high=EPOCH_S_MAX)
        before_s = _whole(request, "before", None, low=-EPOCH_S_MAX, high=EPOCH_S_MAX)
        page = _whole(request, "page", 1, low=1) or 1
        per_page = min(PER_PAGE_MAX, _whole(request, "per_page", PER_PAGE, low=1) or PER_PAGE)
        archive = self._world.archive(int(grant.user))
        part = archive.between(after_s, before_s)
        places = range(part.size)
        if after_s is None or before_s is not None:
            places = places[::-1]
        found = (archive.at(part, place) for place in places[(page - 1) * per_page :][:per_page])
        seed = self._world.seed
        return json_answer([shapes.summary(seed, each) for each in found if may_see(grant, each)])

    async def activity(self, request: Request) -> Response:
        """Show one activity in full."""
        activity = self._visible(request)
        every = request.query_params.get("include_all_efforts", "").lower() in ("true", "1")
        return json_answer(self._detail(activity, all_efforts=every))

    async def laps(self, request: Request) -> Response:
        """Show the laps of one activity."""
        return json_answer(shapes.laps(self._visible(request), self._world.points))

    async def streams(self, request: Request) -> Response:
        """Show the points of one activity: a list, or with `key_by_type` an object by type."""
        activity = self._visible(request)
        if not activity.measured:
            raise Answered(fault(404))
        wanted = request.query_params.get("keys", "").split(",")
        made = Points(self._world.seed, activity, self._world.points).make(wanted)
        if request.query_params.get("key_by_type", "").lower() in ("true", "1"):
            return json_answer(made)
        return json_answer([{"type": name, **stream} for name, stream in made.items()])

    async def create(self, request: Request) -> Response:
        """Create an activity entered by hand; sent twice, it makes two, since there is no key."""
        grant = writer(request)
        fields = (await read_form(request)).fields
        athlete = self._world.archive(int(grant.user)).athlete
        for field in ("name", "start_date_local", "elapsed_time"):
            if not fields.get(field):
                raise bad_request("Activity", field, "missing")
        sport_type = fields.get("sport_type") or fields.get("type")
        if not sport_type:
            raise bad_request("Activity", "sport_type", "missing")
        try:
            new = NewActivity(
                athlete_id=athlete.id,
                name=fields["name"],
                sport_type=sport_type,
                start=_local(fields["start_date_local"], athlete.utc_offset_s),
                elapsed_s=int(_number(fields, "elapsed_time")),
                distance_m=_number(fields, "distance"),
                manual=True,
                trainer=fields.get("trainer") == "1",
                commute=fields.get("commute") == "1",
                description=fields.get("description"),
            )
        except InvalidInput as error:
            raise bad_request("Activity", _FIELDS[error.field]) from error
        return json_answer(self._detail(self._add_activity(new), all_efforts=False), 201)

    def _detail(self, activity: Activity, *, all_efforts: bool) -> dict[str, object]:
        world = self._world
        return shapes.detail(world.seed, activity, points=world.points, all_efforts=all_efforts)

    def _visible(self, request: Request) -> Activity:
        """The activity that the path names, if the token may see it."""
        grant = reader(request)
        activity = self._world.find(request.path_params["id"])
        if activity is None or not may_see(grant, activity):
            raise not_found("Activity")
        return activity


def _whole(
    request: Request, name: str, default: int | None, *, low: int, high: int = 1_000_000_000
) -> int | None:
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    try:
        value = int(text)
    except ValueError:
        raise bad_request("Activity", name) from None
    if not low <= value <= high:
        raise bad_request("Activity", name)
    return value


def _local(text: str, offset_s: int) -> datetime:
    """The moment of a text on the athlete's wall clock; a zone in the text is ignored."""
    try:
        wall = datetime.fromisoformat(text).replace(tzinfo=UTC)
        return wall - timedelta(seconds=offset_s)
    except (ValueError, OverflowError):
        raise bad_request("Activity", "start_date_local") from None


def _number(fields: dict[str, str], name: str) -> float:
    try:
        value = float(fields.get(name) or 0)
    except ValueError:
        raise bad_request("Activity", name) from None
    if not math.isfinite(value):
        raise bad_request("Activity", name)
    return value
