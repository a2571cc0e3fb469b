"""The health history between the emulated Google Health and Strava, in virtual time."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from headgate import App, Budget, JobRequest, Mode, Record, Secret, Sync
from headgate.connectors.fitbit import FitbitArguments, fitbit
from headgate.connectors.strava import StravaArguments, strava
from headgate.connectors.strava.api import BUDGET
from headgate.ports.transport import Request, Response
from headgate.systems.health_history.syncs import LIVE, NAME, health_history, health_history_live
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import Connection, Job
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.google_health.data_types import DATA_TYPES
from headgate_sandbox.google_health.day import Shares
from headgate_sandbox.google_health.exercise import Exercise
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.strava import access as strava_access
from headgate_sandbox.strava.activity import Activity
from headgate_sandbox.strava.sandbox import Strava
from tests.connecting import Wire, vault
from tests.worlds import World

GOOGLE = "https://health.googleapis.com"
STRAVA = "https://www.strava.com"
BACK = "https://app.example/connected"
#: The last day that is over everywhere on earth when virtual time begins.
LAST = date(2025, 12, 30)
EPOCH = date(1970, 1, 1)

#: It looks like a TCX file, and holds no activity.
NO_ACTIVITY = b"<TrainingCenterDatabase><Trackpoint/></TrainingCenterDatabase>"

#: An exercise on every day, and nothing entered by hand.
SPORTY = Shares(empty=0.0, exercise=1.0, second_exercise=0.0, manual=0.0)


def fitbit_api(url: str = GOOGLE) -> FitbitArguments:
    """The application that the Google Health sandbox knows."""
    return fitbit(
        client_id=google_access.CLIENT_ID,
        client_secret=Secret(google_access.CLIENT_SECRET),
        redirect_uris=(BACK,),
        url=url,
    )


def strava_api(url: str = STRAVA) -> StravaArguments:
    """The application that the Strava sandbox knows."""
    return strava(
        client_id=strava_access.CLIENT_ID,
        client_secret=Secret(strava_access.CLIENT_SECRET),
        redirect_uris=(BACK,),
        url=url,
    )


def days_back(count: int) -> list[date]:
    """The last so many days, newest first."""
    return [LAST - timedelta(days=number) for number in range(count)]


class Spoiling(AsgiTransport):
    """The way to the providers, on which files change a little, and some beyond recognition.

    Strava knows a file again by its bytes or by its name. Here the bytes are never the same, so
    that nothing but the name keeps an activity from being made twice.
    """

    exports = 0
    #: The exercises whose files nobody can read.
    spoilt: set[str]

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        if ":exportExerciseTcx" not in request.url or response.status != 200:
            return response
        self.exports += 1
        if any(f"/{each}:" in request.url for each in self.spoilt):
            return msgspec.structs.replace(response, body=NO_ACTIVITY)
        mark = b"?>\n<!-- export %d -->\n" % self.exports
        return msgspec.structs.replace(response, body=response.body.replace(b"?>\n", mark, 1))


class Site:
    """Both providers, and the wire to them."""

    def __init__(
        self,
        world: World,
        *,
        users: int = 1,
        google: dict[str, Any] | None = None,
        strava: dict[str, Any] | None = None,
        budget: Budget = BUDGET,
    ) -> None:
        self.world = world
        self.google = GoogleHealth(world.clock, users=users, **(google or {}))
        self.strava = Strava(
            world.clock, athletes=users, activities=0, stream_points=2, **(strava or {})
        )
        self._apps = {GOOGLE: self.google, STRAVA: self.strava}
        transport = Spoiling(self._apps, world.clock, latency_s=0.2)
        self.spoilt = transport.spoilt = set()
        self.wire = Wire(transport)
        both: dict[str, Any] = {
            "fitbit": fitbit_api(),
            "strava": {**strava_api(), "budget": budget},
        }
        self.sync = health_history(**both)
        self.live = health_history_live(**both)

    async def app(self, *, sync: Sync | None = None, **parts: Any) -> App:
        """A process with the health history and its live sync."""
        given: dict[str, Any] = {"transport": self.wire, "vault": vault()}
        return await self.world.app(sync or self.sync, self.live, **{**given, **parts})

    async def connect(
        self, app: App, source: str, user: int = 0, connection_id: str | None = None
    ) -> Connection:
        """Connect an account of the user of that number, on the provider's page and back."""
        ids: Sequence[int] = (
            self.google.world.user_ids if source == "fitbit" else self.strava.world.athlete_ids
        )
        who: dict[str, str] = {
            "user_id": user_id(user),
            "session": "a browser",
            "redirect_uri": BACK,
        }
        page = await app.connections.start(source, connection_id=connection_id, **who)
        browser = AsgiTransport(
            {**self._apps, "https://accounts.google.com": self.google}, app.clock
        )
        answer = await browser.send(Request(method="GET", url=f"{page}&sandbox_user={ids[user]}"))
        assert answer.status == 302, answer.text
        back = answer.headers.get("location") or ""
        answered = dict(parse_qsl(urlsplit(back).query))
        return await app.connections.finish(query=answered, **who)

    async def connect_both(self, app: App, user: int = 0) -> tuple[Connection, Connection]:
        """Both accounts of one user."""
        return await self.connect(app, "fitbit", user), await self.connect(app, "strava", user)

    # What the providers know: the oracle.

    def exercises(self, day: date, user: int = 0) -> list[Exercise]:
        """What somebody did on a day, by the sandbox's own account."""
        person = self.google.world.person(str(self.google.world.user_ids[user]))
        return self.google.world.exercises(person, (day - EPOCH).days)

    def steps(self, day: date, user: int = 0) -> int:
        """How many steps somebody made on a day."""
        person = self.google.world.person(str(self.google.world.user_ids[user]))
        points = self.google.world.on_day(person, DATA_TYPES["steps"], (day - EPOCH).days)
        return sum(int(str(each.fields["count"])) for each in points)

    def activities(self, user: int = 0) -> list[Activity]:
        """What an athlete has at Strava."""
        self.strava.uploads.process()
        archive = self.strava.world.archive(self.strava.world.athlete_ids[user])
        first = archive.next_id() - archive.size
        found = [archive.find(first + number) for number in range(archive.size)]
        return [each for each in found if each is not None]

    def expected_ids(self, days: Sequence[date], user: int = 0) -> list[str]:
        """What the activities of those days must be called at Strava."""
        return sorted(
            f"headgate-fitbit-{each.id}.tcx" for day in days for each in self.exercises(day, user)
        )

    def external_ids(self, user: int = 0) -> list[str]:
        """What they are called there."""
        return sorted(each.external_id or "" for each in self.activities(user))


def user_id(number: int) -> str:
    """The name of the user of that number."""
    return f"user-{number}"


def request(days: int, user: int = 0, **more: Any) -> JobRequest:
    """The last so many days of a user."""
    return JobRequest(
        user_id=user_id(user),
        source="fitbit",
        destination="strava",
        start_date=LAST - timedelta(days=days - 1),
        end_date=LAST,
        **more,
    )


async def start(app: App, days: int, user: int = 0, **more: Any) -> Job:
    """An import of the last so many days."""
    return (await app.jobs.submit(request(days, user, **more))).job


async def start_live(app: App, user: int = 0, **more: Any) -> Job:
    """A live sync of a user's recent days."""
    wanted = JobRequest(sync=LIVE, user_id=user_id(user), **{"mode": Mode.SINCE, **more})
    return (await app.jobs.submit(wanted)).job


async def all_records(app: App, connection_id: str) -> dict[str, Record]:
    """Everything that is kept for a connection, by its key."""
    found: dict[str, Record] = {}
    after = None
    while page := await app.records.list(NAME, connection_id, after=after):
        found.update((each.key, each) for each in page)
        after = page[-1].key
    return found
