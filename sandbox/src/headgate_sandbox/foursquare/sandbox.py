"""`Foursquare` is the sandbox: it joins the parts and offers actions for tests and demos."""

import re
from collections.abc import Sequence
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate_sandbox.foursquare import access, limits
from headgate_sandbox.foursquare.api import Api
from headgate_sandbox.foursquare.checkin import Checkin, User, shape
from headgate_sandbox.foursquare.envelope import Envelope
from headgate_sandbox.foursquare.limits import Limits
from headgate_sandbox.foursquare.world import NewCheckin, World
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.control import read_json
from headgate_sandbox.kit.routing import get, post
from headgate_sandbox.kit.token_provider import TokenProvider
from headgate_sandbox.kit.tokens import Grant, Tokens

AUTHENTICATE, ACCESS_TOKEN = "/oauth2/authenticate", "/oauth2/access_token"
#: These paths are not counted, and their answers have no envelope.
_FREE = frozenset({AUTHENTICATE, ACCESS_TOKEN})
_VERSION = re.compile(r"20[0-9]{2}(0[1-9]|1[0-2])([0-2][0-9]|3[01])")


class Foursquare(TokenProvider):
    """Foursquare's v2 API with one application, and any number of users and check-ins."""

    name = "foursquare"
    client_id = access.CLIENT_ID

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 1,
        users: int = 1,
        checkins: int = 700,
        limits: Limits | None = None,
        limited_by: Literal["hour", "day"] = "hour",
    ) -> None:
        """Draw all data from `seed`; `checkins` is the number for each user.

        A `rate_limited` fault answers with the error of the window that `limited_by` names.
        """
        super().__init__(clock, seed=seed, windows=(limits or Limits()).windows())
        self.limited_by = limited_by
        self._users = users
        self._checkins = checkins
        self._envelope = Envelope(seed)
        self._begin()

    def _begin(self) -> None:
        self.world = World(self.clock, seed=self.seed, users=self._users, checkins=self._checkins)
        self.tokens = Tokens(self.clock, access.RULES, self.seed)
        self.oauth = access.FoursquareOAuth(
            self.clock,
            self.tokens,
            clients={access.CLIENT_ID: access.CLIENT_SECRET},
            find_user=self.find_user,
        )

    # Actions for tests and demonstrations.

    def grant(self, user: str | None = None) -> Grant:
        """Issue a token for a user, or for the first one, without the approval page."""
        return self.issue(user, ())

    def add_user(self, checkins: int = 0) -> User:
        """Add a user."""
        return self.world.add_user(checkins)

    def add_checkin(self, new: NewCheckin | None = None) -> Checkin:
        """Add a check-in, by default one made now."""
        return self.world.add(new or NewCheckin())

    # What the kit requires of a provider.

    def routes(self) -> Sequence[Route]:
        """Every path of the API; a code can be exchanged by GET too."""
        return [
            *Api(self.world, self._envelope).routes(),
            get(AUTHENTICATE, self.oauth.authorize),
            get(ACCESS_TOKEN, self.oauth.token),
            post(ACCESS_TOKEN, self.oauth.token),
        ]

    def admit(self, request: Request, pattern: str) -> Response | None:
        """Check the token, count the request, and check its version."""
        if pattern in _FREE:
            return None
        token = self.token_of(request)
        grant = self.tokens.find(token)
        if grant is None:
            return self._envelope.error(401)
        request.state.grant = grant
        key = limits.key_of(token, request.scope["path"])
        request.state.reading, spent = limits.count(self.meter, key)
        if spent is not None:
            return self._limited(spent)
        version = request.query_params.get("v", "")
        if not version:
            return self._envelope.version_missing()
        if not _VERSION.fullmatch(version):
            return self._envelope.error(400, detail="v must be a date: YYYYMMDD")
        return None

    def refusal(self, status: int) -> Response:
        """Foursquare's error for a status."""
        if status != 429:
            return self._envelope.error(status)
        response = self._limited(self.limited_by)
        if self.limited_by == limits.HOUR:
            limits.add_planned_headers(response.headers, now_s=self._now_s())
        return response

    def token_of(self, request: Request) -> str:
        """The token in the query, or else in the header."""
        return access.token_of(request)

    def find_user(self, name: str | None) -> str | None:
        """The user of that id, or the first user."""
        if name is None:
            return str(self.world.user_ids[0])
        return name if self.world.has(name) else None

    def decorate(self, request: Request, response: Response) -> None:
        """Add what is left of the hour to every counted request's answer."""
        reading = getattr(request.state, "reading", None)
        if reading is not None:
            limits.add_headers(response.headers, reading, now_s=self._now_s())

    def reset_data(self) -> None:
        """Go back to the first users, check-ins and tokens."""
        self._begin()
        self.issue_again()

    def data_stats(self) -> JsonObject:
        """How many users there are."""
        return {"users": len(self.world.user_ids)}

    def control_routes(self) -> Sequence[Route]:
        """The control paths that add users and check-ins."""
        return [
            post("/_sandbox/users", self._control_user),
            post("/_sandbox/checkins", self._control_checkin),
        ]

    def greeting(self, base_url: str) -> list[str]:
        """A ready token and commands that work."""
        token = self.grant().access_token
        path = f"/v2/users/self/checkins?v=20260101&limit=2&oauth_token={token}"
        return [
            f"users          {self.world.user_ids[0]} to {self.world.user_ids[-1]}",
            f"access token   {token}",
            f"client         id {access.CLIENT_ID}, secret {access.CLIENT_SECRET}",
            f"try            curl '{base_url}{path}'",
            f"break it       curl {base_url}/_sandbox/faults -d "
            '\'{"kind": "rate_limited", "times": 3}\'',
            f"look           curl {base_url}/_sandbox/stats",
        ]

    # Endpoints and helpers.

    def _now_s(self) -> int:
        return int(self.clock.now().timestamp())

    def _limited(self, window: str) -> Response:
        by_hour = window == limits.HOUR
        return self._envelope.hourly_limit() if by_hour else self._envelope.daily_quota()

    async def _control_user(self, request: Request) -> Response:
        """Add a user and issue a token for them; the body is `{"checkins": 10}`."""
        given = await read_json(request, dict[str, int])
        if unknown := given.keys() - {"checkins"}:
            raise InvalidInput(min(unknown), "unknown field")
        user = self.add_user(given.get("checkins", 0))
        return json_answer({"user": user.id, "access_token": self.grant(user.id).access_token}, 201)

    async def _control_checkin(self, request: Request) -> Response:
        """Add a check-in; every field of `NewCheckin` is optional."""
        new = await read_json(request, NewCheckin)
        checkin = self.add_checkin(new)
        user = self.world.user(new.user or str(self.world.user_ids[0]))
        return json_answer(shape(self.seed, user, checkin), 201)
