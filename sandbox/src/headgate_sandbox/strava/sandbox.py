"""`Strava` is the Strava sandbox: it joins the parts and offers actions for tests and demos."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.control import read_json
from headgate_sandbox.kit.forms import digits, read_form
from headgate_sandbox.kit.journal import Journal, Line
from headgate_sandbox.kit.oauth import bearer
from headgate_sandbox.kit.outbound import Outbound, nowhere
from headgate_sandbox.kit.request_log import Seen
from headgate_sandbox.kit.routing import delete, get, post
from headgate_sandbox.kit.token_provider import TokenProvider
from headgate_sandbox.kit.tokens import Grant, Tokens
from headgate_sandbox.strava import access, answers, limits, push_api, shapes
from headgate_sandbox.strava.activity import Activity, Shares
from headgate_sandbox.strava.api import CREATE_ACTIVITY, Api
from headgate_sandbox.strava.archive import Athlete
from headgate_sandbox.strava.limits import Limits
from headgate_sandbox.strava.push_api import PushApi
from headgate_sandbox.strava.track_files import Track
from headgate_sandbox.strava.upload_api import CREATE_UPLOAD, UploadApi
from headgate_sandbox.strava.uploads import Upload, Uploads
from headgate_sandbox.strava.webhooks import Event, Webhooks
from headgate_sandbox.strava.world import NewActivity, World

#: These paths are not counted and have no rate headers.
_FREE = frozenset({"/oauth/authorize", "/oauth/token", "/api/v3/oauth/token"})
#: These paths and those of subscriptions are counted, but check the caller themselves.
_DEAUTHORIZE = frozenset({"/oauth/deauthorize", "/api/v3/oauth/deauthorize"})
_OWN_CHECK = _DEAUTHORIZE | {push_api.SUBSCRIPTIONS, push_api.SUBSCRIPTION}
_WRITES = frozenset({("POST", CREATE_ACTIVITY), ("POST", CREATE_UPLOAD)})


class Strava(TokenProvider):
    """Strava's API v3 with one application, and any number of athletes and activities."""

    name = "strava"
    client_id = access.CLIENT_ID
    user_field = "athlete_id"

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 1,
        athletes: int = 1,
        activities: int = 700,
        limits: Limits | None = None,
        stream_points: int = 3_600,
        processing_s: float = 2.0,
        shares: Shares | None = None,
        outbound: Outbound = nowhere,
    ) -> None:
        """Draw all data from `seed`; `activities` is the number for each athlete."""
        if stream_points < 2:
            raise InvalidInput("stream_points", "must be 2 or more")
        super().__init__(clock, seed=seed, windows=(limits or Limits()).windows())
        self._athletes = athletes
        self._activities = activities
        self._stream_points = stream_points
        self._processing_s = processing_s
        self._shares = shares or Shares()
        self._outbound = outbound
        self._begin()

    def _begin(self) -> None:
        self.world = World(
            self.clock,
            seed=self.seed,
            athletes=self._athletes,
            activities=self._activities,
            points=self._stream_points,
            shares=self._shares,
        )
        self.tokens = Tokens(self.clock, access.RULES, self.seed)
        self.oauth = access.StravaOAuth(
            self.clock,
            self.tokens,
            clients={access.CLIENT_ID: access.CLIENT_SECRET},
            find_user=self.find_user,
        )
        self.oauth.show_athlete = self._show_athlete
        self.uploads = Uploads(
            self.clock, processing_s=self._processing_s, create=self._add_uploaded
        )
        self.webhooks = Webhooks(self.clock, self.background, self._outbound, self.seed)

    # Actions for tests and demonstrations.

    def grant(
        self, athlete_id: int | None = None, scopes: tuple[str, ...] = access.SCOPES
    ) -> Grant:
        """Issue tokens for an athlete, or for the first one, without the approval page."""
        return self.issue(None if athlete_id is None else str(athlete_id), scopes)

    def add_athlete(self, activities: int = 0) -> Athlete:
        """Add an athlete."""
        return self.world.add_athlete(activities)

    def add_activity(self, new: NewActivity | None = None) -> Activity:
        """Add an activity, by default one that just ended, and notify the subscribers."""
        activity = self.world.add(new or NewActivity())
        self._emit_about(activity, "create")
        return activity

    def delete_activity(self, activity_id: int) -> Activity:
        """Delete an activity, as its athlete does, and notify the subscribers."""
        activity = self.world.delete(activity_id)
        self.uploads.forget(activity.id)
        self._emit_about(activity, "delete")
        return activity

    def emit(self, event: Event) -> None:
        """Deliver an event to the subscriber, in the background; see `background.settle`."""
        self.webhooks.emit(event)

    def _emit_about(self, activity: Activity, aspect: Literal["create", "delete"]) -> None:
        self.emit(
            Event(
                object_type="activity",
                object_id=activity.id,
                aspect_type=aspect,
                owner_id=activity.athlete_id,
            )
        )

    # What the kit requires of a provider.

    def routes(self) -> Sequence[Route]:
        """Every path of the API."""
        return [
            *Api(self.world, self.add_activity).routes(),
            *UploadApi(self.uploads, self._upload_added).routes(),
            *PushApi(self.oauth, self.webhooks).routes(),
            get("/oauth/authorize", self.oauth.authorize),
            *(post(path, self.oauth.token) for path in ("/oauth/token", "/api/v3/oauth/token")),
            *(post(path, self._deauthorize) for path in sorted(_DEAUTHORIZE)),
        ]

    def admit(self, request: Request, pattern: str) -> Response | None:
        """Count the request, then check its token, then its limits."""
        self.uploads.process()
        if pattern in _FREE:
            return None
        writes = (request.method, pattern) in _WRITES
        reading = self.meter.arrive(windows=limits.windows_of(writes=writes))
        request.state.reading = reading
        if pattern not in _OWN_CHECK:
            grant = self.tokens.find(bearer(request))
            if grant is None:
                return answers.unauthorized()
            request.state.grant = grant
        if reading.beyond:
            return answers.rate_limited(limits.refused_field(reading))
        return None

    def refusal(self, status: int) -> Response:
        """Strava's error for a status."""
        return answers.refusal(status)

    def find_user(self, name: str | None) -> str | None:
        """The athlete of that id, or the first athlete."""
        if name is None:
            return str(self.world.athlete_ids[0])
        return name if digits(name) in self.world.athlete_ids else None

    def decorate(self, request: Request, response: Response) -> None:
        """Add the overall and the read rate headers to every counted request's answer."""
        reading = getattr(request.state, "reading", None)
        if reading is not None:
            creates = request.method == "POST" and request.scope["path"] == CREATE_ACTIVITY
            limits.add_headers(response.headers, reading, creates_activity=creates)

    def reset_data(self) -> None:
        """Go back to the first athletes, activities and tokens."""
        self._begin()
        self.issue_again()

    def data_stats(self) -> JsonObject:
        """The numbers of athletes, subscriptions and deliveries."""
        return {
            "athletes": len(self.world.athlete_ids),
            "subscriptions": len(self.webhooks.subscriptions),
            "deliveries": len(self.webhooks.deliveries),
        }

    def control_routes(self) -> Sequence[Route]:
        """The control paths that add athletes and events, and add and delete activities."""
        return [
            post("/_sandbox/athletes", self._control_athlete),
            post("/_sandbox/activities", self._control_activity),
            delete("/_sandbox/activities/{id:int}", self._control_delete),
            post("/_sandbox/events", self._control_event),
        ]

    def greeting(self, base_url: str) -> list[str]:
        """A ready token and commands that work."""
        grant = self.grant()
        header = f"-H 'Authorization: Bearer {grant.access_token}'"
        return [
            f"athletes       {self.world.athlete_ids[0]} to {self.world.athlete_ids[-1]}",
            f"access token   {grant.access_token}",
            f"refresh token  {grant.refresh_token}",
            f"client         id {access.CLIENT_ID}, secret {access.CLIENT_SECRET}",
            f"try            curl {header} '{base_url}/api/v3/athlete/activities?per_page=2'",
            f"break it       curl {base_url}/_sandbox/faults -d "
            '\'{"kind": "rate_limited", "times": 3}\'',
            f"look           curl {base_url}/_sandbox/stats",
        ]

    def _line(self, journal: Journal, seen: Seen) -> Line:
        line = super()._line(journal, seen)
        new = self.uploads.accepted[journal.added :]
        journal.added += len(new)
        added = [msgspec.Raw(msgspec.json.encode(each)) for each in new]
        return msgspec.structs.replace(line, added=added)

    def _restore(self, journal: Journal, line: Line) -> None:
        super()._restore(journal, line)
        for each in line.added:
            self.uploads.restore(msgspec.json.decode(each, type=Upload))
            journal.added += 1

    # Endpoints and helpers.

    async def _deauthorize(self, request: Request) -> Response:
        given = bearer(request) or (await read_form(request)).fields.get("access_token", "")
        grant = self.tokens.find(given)
        if grant is None:
            return answers.unauthorized()
        self.tokens.revoke(grant.user, grant.client_id)
        self.emit(
            Event(
                object_type="athlete",
                object_id=int(grant.user),
                aspect_type="update",
                owner_id=int(grant.user),
                updates={"authorized": "false"},
            )
        )
        return json_answer({"access_token": given})

    async def _control_athlete(self, request: Request) -> Response:
        """Add an athlete and issue a token for them; the body is `{"activities": 10}`."""
        given = await read_json(request, dict[str, int])
        if unknown := given.keys() - {"activities"}:
            raise InvalidInput(min(unknown), "unknown field")
        athlete = self.add_athlete(given.get("activities", 0))
        grant = self.grant(athlete.id)
        return json_answer({"athlete_id": athlete.id, "access_token": grant.access_token}, 201)

    async def _control_activity(self, request: Request) -> Response:
        """Add an activity; every field of `NewActivity` is optional."""
        activity = self.add_activity(await read_json(request, NewActivity))
        return json_answer(shapes.summary(self.seed, activity), 201)

    async def _control_delete(self, request: Request) -> Response:
        activity = self.delete_activity(request.path_params["id"])
        return json_answer({"deleted": activity.id})

    async def _control_event(self, request: Request) -> Response:
        """Emit the event in the body."""
        self.emit(await read_json(request, Event))
        return json_answer({"subscriptions": len(self.webhooks.subscriptions)}, 202)

    def _add_uploaded(self, upload: Upload, track: Track) -> int:
        sent = upload.sent
        elapsed_s = max(1, track.elapsed_s or 1_800)
        start = None if track.start_s is None else datetime.fromtimestamp(track.start_s, UTC)
        activity = self.add_activity(
            NewActivity(
                athlete_id=sent.athlete_id,
                name=sent.name,
                sport_type=track.sport_type or "Workout",
                start=start,
                elapsed_s=elapsed_s,
                distance_m=track.distance_m or 0.0,
                trainer=sent.trainer,
                commute=sent.commute,
                description=sent.description,
                external_id=upload.file_name,
                upload_id=upload.id,
            )
        )
        return activity.id

    def _upload_added(self) -> None:
        # A subscriber must get the event without asking, so processing needs a task. Without a
        # subscriber, the next request finishes the upload, and nobody can see the difference.
        if self.webhooks.subscriptions:
            self.background.spawn(self._process_later)

    async def _process_later(self) -> None:
        await self.clock.sleep(self._processing_s)
        self.uploads.process()

    def _show_athlete(self, athlete_id: int) -> JsonObject:
        return shapes.athlete_summary(self.world.archive(athlete_id).athlete)
