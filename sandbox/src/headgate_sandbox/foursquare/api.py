"""This module serves the paths of Foursquare's API for users and their check-ins."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate_sandbox.foursquare.checkin import shape
from headgate_sandbox.foursquare.envelope import Envelope
from headgate_sandbox.foursquare.world import World
from headgate_sandbox.kit.answers import Answered
from headgate_sandbox.kit.forms import digits
from headgate_sandbox.kit.routing import get
from headgate_sandbox.kit.tokens import Grant

LIMIT = 20
LIMIT_MAX = 250
#: Versions before this one are answered, but marked as deprecated.
VERSION_OLD = 20_120_609
#: The end of the year 9999: beyond any date here, and a moment that a database can hold.
EPOCH_S_MAX = 253_402_300_799
_SORTS = ("newestfirst", "oldestfirst")


class Api:
    """The endpoints for users and check-ins."""

    def __init__(self, world: World, envelope: Envelope) -> None:
        """Serve the data of `world`, wrapped by `envelope`."""
        self._world = world
        self._envelope = envelope

    def routes(self) -> list[Route]:
        """The paths."""
        return [
            get("/v2/users/{user}", self.user),
            get("/v2/users/{user}/checkins", self.checkins),
        ]

    async def user(self, request: Request) -> Response:
        """Show the user that the token belongs to."""
        user_id = self._own(request)
        user = self._world.user(user_id)
        shown = {
            "id": user.id,
            "firstName": user.first_name,
            "lastName": user.last_name,
            "relationship": "self",
            "checkins": {"count": self._world.timeline(user_id).size},
        }
        return self._ok(request, {"user": shown})

    async def checkins(self, request: Request) -> Response:
        """List a page of check-ins, newest first by default.

        The count covers all check-ins of the user, whatever the time range, so only an empty page
        marks the end.
        """
        user_id = self._own(request)
        limit = min(LIMIT_MAX, self._whole(request, "limit", LIMIT, low=1))
        offset = self._whole(request, "offset", 0)
        after_s = self._moment(request, "afterTimestamp")
        before_s = self._moment(request, "beforeTimestamp")
        sort = request.query_params.get("sort", "newestfirst")
        if sort not in _SORTS:
            raise self._envelope.bad_parameter("sort", f"must be one of {', '.join(_SORTS)}")
        timeline = self._world.timeline(user_id)
        part = timeline.between(after_s, before_s)
        places = range(part.size) if sort == "oldestfirst" else range(part.size)[::-1]
        user = self._world.user(user_id)
        items = [
            shape(self._world.seed, user, timeline.at(part, place))
            for place in places[offset : offset + limit]
        ]
        return self._ok(request, {"checkins": {"count": timeline.size, "items": items}})

    def _own(self, request: Request) -> str:
        """The user in the path; answers with a 403 if the token belongs to another user."""
        grant: Grant = request.state.grant
        if request.path_params["user"] not in ("self", grant.user):
            raise Answered(self._envelope.error(403))
        return grant.user

    def _ok(self, request: Request, response: dict[str, object]) -> Response:
        old = int(request.query_params["v"]) < VERSION_OLD
        return self._envelope.ok(response, deprecated=old)

    def _moment(self, request: Request, name: str) -> int | None:
        if name not in request.query_params:
            return None
        return self._whole(request, name, 0, high=EPOCH_S_MAX)

    def _whole(
        self, request: Request, name: str, default: int, *, low: int = 0, high: int = 1_000_000_000
    ) -> int:
        text = request.query_params.get(name)
        if text is None:
            return default
        value = digits(text)
        if value is None or not low <= value <= high:
            raise self._envelope.bad_parameter(name, "must be a whole number in its range")
        return value
