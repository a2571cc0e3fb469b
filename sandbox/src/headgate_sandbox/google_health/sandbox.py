"""`GoogleHealth` is the sandbox: it joins the parts and offers actions for tests and demos."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate_sandbox.google_health import access, answers, limits
from headgate_sandbox.google_health.api import Api
from headgate_sandbox.google_health.day import Shares
from headgate_sandbox.google_health.exercise import Exercise
from headgate_sandbox.google_health.limits import Limits
from headgate_sandbox.google_health.person import Person, ordinal_of_id
from headgate_sandbox.google_health.world import NewExercise, World
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.control import read_json
from headgate_sandbox.kit.forms import read_form
from headgate_sandbox.kit.routing import delete, get, post
from headgate_sandbox.kit.token_provider import TokenProvider
from headgate_sandbox.kit.tokens import Grant, Tokens

#: At Google these paths are on other hosts; here they are on the same one.
AUTHORIZE, TOKEN, REVOKE = "/o/oauth2/v2/auth", "/token", "/revoke"
#: These paths are not counted and need no token.
_FREE = frozenset({AUTHORIZE, TOKEN, REVOKE})


class GoogleHealth(TokenProvider):
    """The Google Health API v4 with one project, and any number of users and days."""

    name = "google-health"
    client_id = access.CLIENT_ID

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 1,
        users: int = 1,
        days: int = 1_095,
        slot_minutes: int = 15,
        limits: Limits | None = None,
        shares: Shares | None = None,
    ) -> None:
        """Draw all data from `seed`; each user has `days` of history, which ends yesterday.

        A band measures once every `slot_minutes`.
        """
        super().__init__(clock, seed=seed, windows=(limits or Limits()).windows())
        self._users = users
        self._days = days
        self._slot_minutes = slot_minutes
        self._shares = shares or Shares()
        self._begin()

    def _begin(self) -> None:
        self.world = World(
            self.clock,
            seed=self.seed,
            users=self._users,
            days=self._days,
            slot_minutes=self._slot_minutes,
            shares=self._shares,
        )
        self.tokens = Tokens(self.clock, access.RULES, self.seed)
        self.oauth = access.GoogleOAuth(
            self.clock,
            self.tokens,
            clients={access.CLIENT_ID: access.CLIENT_SECRET},
            find_user=self.find_user,
        )

    # Actions for tests and demonstrations.

    def grant(self, user: str | None = None, scopes: tuple[str, ...] = access.SCOPES) -> Grant:
        """Issue tokens for a user, or for the first one, without the approval page."""
        return self.issue(user, scopes)

    def add_user(self, days: int = 0) -> Person:
        """Add a user."""
        return self.world.add_user(days)

    def add_exercise(self, new: NewExercise | None = None) -> Exercise:
        """Add an exercise, by default one that just ended."""
        return self.world.add_exercise(new or NewExercise())

    def delete_exercise(self, exercise_id: int) -> None:
        """Delete an exercise, as its user does in the app."""
        ordinal = ordinal_of_id(exercise_id)
        known = 0 <= ordinal < len(self.world.user_ids)
        person = self.world.person(str(self.world.user_ids[ordinal])) if known else None
        if person is None or self.world.find_exercise(person, exercise_id) is None:
            raise InvalidInput("id", f"there is no exercise {exercise_id}")
        self.world.delete_exercise(exercise_id)

    # What the kit requires of a provider.

    def routes(self) -> Sequence[Route]:
        """Every path of the API and of OAuth."""
        return [
            *Api(self.world).routes(),
            get(AUTHORIZE, self.oauth.authorize),
            post(TOKEN, self.oauth.token),
            post(REVOKE, self._revoke),
        ]

    def admit(self, request: Request, pattern: str) -> Response | None:
        """Check the token, then count the request, since quotas belong to a user and a project."""
        if pattern in _FREE:
            return None
        token = self.token_of(request)
        grant = self.tokens.find(token)
        if grant is None:
            return answers.unauthenticated(sent=bool(token))
        request.state.grant = grant
        return limits.count(self.meter, grant.user)

    def refusal(self, status: int) -> Response:
        """Google's error for a status."""
        return answers.error(status)

    def find_user(self, name: str | None) -> str | None:
        """The user of that id, or the first user."""
        if name is None:
            return str(self.world.user_ids[0])
        return name if self.world.has(name) else None

    def reset_data(self) -> None:
        """Go back to the first users, their data and tokens."""
        self._begin()
        self.issue_again()

    def data_stats(self) -> JsonObject:
        """The numbers of users and of added exercises."""
        return {"users": len(self.world.user_ids), "exercises_added": self.world.added}

    def control_routes(self) -> Sequence[Route]:
        """The control paths that add users, and add and delete exercises."""
        return [
            post("/_sandbox/users", self._control_user),
            post("/_sandbox/exercises", self._control_exercise),
            delete("/_sandbox/exercises/{id:int}", self._control_delete),
        ]

    def greeting(self, base_url: str) -> list[str]:
        """A ready token and commands that work."""
        grant = self.grant()
        header = f"-H 'Authorization: Bearer {grant.access_token}'"
        path = "/v4/users/me/dataTypes/exercise/dataPoints?pageSize=2"
        return [
            f"users          {self.world.user_ids[0]} to {self.world.user_ids[-1]}",
            f"access token   {grant.access_token}",
            f"refresh token  {grant.refresh_token}",
            f"client         id {access.CLIENT_ID}, secret {access.CLIENT_SECRET}",
            f"try            curl {header} '{base_url}{path}'",
            f"break it       curl {base_url}/_sandbox/faults -d "
            '\'{"kind": "rate_limited", "times": 3}\'',
            f"look           curl {base_url}/_sandbox/stats",
        ]

    # Endpoints and helpers.

    async def _revoke(self, request: Request) -> Response:
        """Revoke a grant, given its access token or its refresh token."""
        given = (await read_form(request)).fields.get("token", "")
        grant = self.tokens.owner(given) or self.tokens.refreshed_by(given)
        if grant is None:
            body = {"error": "invalid_token", "error_description": "Token expired or revoked"}
            return json_answer(body, 400)
        self.tokens.revoke(grant.user, grant.client_id)
        return json_answer({})

    async def _control_user(self, request: Request) -> Response:
        """Add a user and issue a token for them; the body is `{"days": 10}`."""
        given = await read_json(request, dict[str, int])
        if unknown := given.keys() - {"days"}:
            raise InvalidInput(min(unknown), "unknown field")
        person = self.add_user(given.get("days", 0))
        grant = self.grant(person.id)
        return json_answer({"user": person.id, "access_token": grant.access_token}, 201)

    async def _control_exercise(self, request: Request) -> Response:
        """Add an exercise; every field of `NewExercise` is optional."""
        exercise = self.add_exercise(await read_json(request, NewExercise))
        return json_answer({"id": str(exercise.id), "start_s": exercise.start_s}, 201)

    async def _control_delete(self, request: Request) -> Response:
        exercise_id = request.path_params["id"]
        self.delete_exercise(exercise_id)
        return json_answer({"deleted": str(exercise_id)})
