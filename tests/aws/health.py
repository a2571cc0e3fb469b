"""Health history on the stack: both providers on loopback, and the functions between them."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import msgspec

from headgate import App, Budget, Limit, RetryPolicy, Secret, paid_history
from headgate.connectors.fitbit import fitbit
from headgate.connectors.strava import strava
from headgate.model.api_key import Role
from headgate.model.job import Lane
from headgate.net.addresses import AddressRules, parse_networks
from headgate.net.aiohttp_transport import AiohttpTransport
from headgate.policy.hints import RECEIVED_WITHIN
from headgate.ports.transport import Request, Response
from headgate.systems.health_history import system
from headgate.systems.health_history.syncs import health_history
from headgate.types import Job
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.serving import serving
from headgate_sandbox.strava import access as strava_access
from headgate_sandbox.strava.limits import Limits
from headgate_sandbox.strava.sandbox import Strava
from tests.aws_calls import Functions, LateClock, backend_on
from tests.aws_stack import Stack
from tests.health import EPOCH, SPORTY

DAYS = 5
MINUTE = timedelta(minutes=1)
BACK = "https://api.test/connected"
COLD = Lane.COLD
#: As tight as the sandbox's own, so that a backfill of some days meets it.
STRAVA_LIMIT = 6


class Wire(AiohttpTransport):
    """The way to the providers; a test may come between an answer and the function."""

    after: Callable[[Request], None] | None = None

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        if self.after is not None:
            self.after(request)
        return response


class Product:
    """The functions, both providers, and an API key."""

    def __init__(
        self,
        stack: Stack,
        user: str,
        clock: LateClock,
        google: GoogleHealth,
        strava: Strava,
        urls: list[str],
        strava_limit: int,
    ) -> None:
        self.user = user
        self.strava_limit = strava_limit
        self.clock = clock
        self.google = google
        self.strava = strava
        self._google_url, self._strava_url = urls
        self._stack = stack
        self.wire: Wire | None = None
        self.functions = Functions(stack, self._make_app)
        self.key = self.functions.container.run(self._prepare)

    def _make_app(self) -> App:
        clients: dict[str, Any] = {
            "fitbit": fitbit(
                client_id=google_access.CLIENT_ID,
                client_secret=Secret(google_access.CLIENT_SECRET),
                redirect_uris=(BACK,),
                budget=Budget("fitbit", [Limit(300, per="min")], paced=False),
                url=self._google_url,
            ),
            "strava": strava(
                client_id=strava_access.CLIENT_ID,
                client_secret=Secret(strava_access.CLIENT_SECRET),
                redirect_uris=(BACK,),
                budget=Budget("strava", [Limit(self.strava_limit, per="15min")], paced=False),
                url=self._strava_url,
            ),
        }
        sync = health_history(**clients)
        # Failures are tried again at once; the breaker opens as ever.
        retry = RetryPolicy(backoff_s=0.0, jitter=0.0)
        ports = frozenset(
            port for url in (self._google_url, self._strava_url) if (port := urlsplit(url).port)
        )
        self.wire = Wire(AddressRules(private=parse_networks("127.0.0.0/8"), ports=ports))
        return App(
            backend_on(self._stack, self.clock),
            systems=[system.with_syncs([msgspec.structs.replace(sync, retry=retry)])],
            entitlement=paid_history,
            transport=self.wire,
            clock=self.clock,
        )

    async def _prepare(self, app: App) -> str:
        """Connect both accounts of a user who pays, and make an API key."""
        for source, ids in (
            ("fitbit", self.google.world.user_ids),
            ("strava", self.strava.world.athlete_ids),
        ):
            who = {"user_id": self.user, "session": "a browser", "redirect_uri": BACK}
            page = await app.connections.start(source, **who)
            answered = sign_in(f"{page}&sandbox_user={ids[0]}")
            await app.connections.finish(query=answered, **who)
        await app.users.set_plan(self.user, "premium")
        _, key = await app.api_keys.make("product", role=Role.ADMIN)
        return key.reveal()

    # ---- what the mobile app does --------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request to the API."""
        text = None if body is None else json.dumps(body)
        answer = self.functions.request(method, path, key=self.key, body=text)
        return answer["statusCode"], json.loads(answer["body"]) if answer.get("body") else None

    def start(self, days: int = DAYS) -> str:
        """Start an import of the last days; returns the id of the job."""
        yesterday = self.clock.now().date() - timedelta(days=1)
        asked = {
            "userId": self.user,
            "source": "fitbit",
            "destination": "strava",
            "startDate": str(yesterday - timedelta(days=days - 1)),
            "endDate": str(yesterday),
        }
        status, told = self.call("POST", "/jobs", asked)
        assert status == 202, told
        return str(told["jobId"])

    def status(self, job_id: str) -> Any:
        """What the progress screen polls."""
        status, told = self.call("GET", f"/jobs/{job_id}/status")
        assert status == 200, told
        return told

    def job(self, job_id: str) -> Job:
        return self.functions.container.run(lambda app: app.jobs.get(job_id))

    # ---- what AWS does -------------------------------------------------------------------------

    def work(self, job_id: str, *, rounds: int = 100) -> None:
        """Deliver messages, and let time pass where there are none, until the job has ended."""
        for _ in range(rounds):
            found = self.functions.receive(COLD)
            if found:
                assert self.functions.deliver(COLD, found) == []
            elif self.job(job_id).ended:
                return
            else:
                self.wait(job_id)
        raise AssertionError("it does not end")

    def work_until_paused(self, job_id: str) -> None:
        """Deliver messages, and let time pass, until the breaker has paused the job."""
        for _ in range(20):
            self.functions.deliver(COLD, self.functions.receive(COLD))
            if self.status(job_id)["status"] == "PAUSED":
                return
            self.wait(job_id)
        raise AssertionError("it is not paused")

    def wait(self, job_id: str) -> None:
        """Let time pass until the job is due, or its lease is over, and call the sweeper."""
        job = self.job(job_id)
        at = job.lease_until or job.wake_at or self.clock.now()
        # A message that was held back is still on its way; it is sent again after this time.
        self.clock.ahead += max(MINUTE, at + RECEIVED_WITHIN + MINUTE - self.clock.now())
        self.functions.sweep()

    # ---- what the providers know ---------------------------------------------------------------

    def uploads(self) -> list[str]:
        """What the activities at Strava are called, as often as they are there."""
        return uploads_of(self.strava)

    def expected(self, job: Job) -> list[str]:
        """What they must be called: every exercise of the job's days once."""
        assert job.start_date is not None and job.end_date is not None
        person = self.google.world.person(str(self.google.world.user_ids[0]))
        days = (job.end_date - job.start_date).days + 1
        return sorted(
            f"headgate-fitbit-{each.id}.tcx"
            for number in range(days)
            for each in self.google.world.exercises(person, _day(job.start_date, number))
        )


def _day(start: date, number: int) -> int:
    return (start - EPOCH).days + number


def uploads_of(strava: Strava) -> list[str]:
    """What the activities of the first athlete are called, as often as they are there."""
    strava.uploads.process()
    archive = strava.world.archive(strava.world.athlete_ids[0])
    first = archive.next_id() - archive.size
    found = [archive.find(first + number) for number in range(archive.size)]
    return sorted(each.external_id or "" for each in found if each is not None)


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        """Stay: the address of the redirect is what is wanted."""


def sign_in(url: str) -> dict[str, str]:
    """Agree on the provider's page; returns what it sends back with the browser."""
    from urllib.error import HTTPError

    try:
        build_opener(_NoRedirect).open(url)
    except HTTPError as redirect:
        assert redirect.code == 302, redirect.read()
        return dict(parse_qsl(urlsplit(redirect.headers["location"]).query))
    raise AssertionError("the provider did not send the browser back")


@contextmanager
def product(stack: Stack, user: str, *, strava_limit: int = STRAVA_LIMIT) -> Iterator[Product]:
    """Both providers on loopback, and functions that use them."""
    clock = LateClock()
    google = GoogleHealth(clock, days=DAYS + 3, shares=SPORTY)
    limits = Limits(
        overall_15min=strava_limit, overall_day=10_000, read_15min=strava_limit, read_day=10_000
    )
    there = Strava(clock, activities=0, processing_s=0.0, limits=limits)
    with serving(google) as google_url, serving(there) as strava_url:
        urls = [google_url, strava_url]
        made = Product(stack, user, clock, google, there, urls, strava_limit)
        try:
            yield made
        finally:
            made.functions.close()
