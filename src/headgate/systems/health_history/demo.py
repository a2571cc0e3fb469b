"""`headgate demo`: imports two years of a premium user's Fitbit data into Strava while you watch.

Only the providers and the time are not real. The providers are sandboxes on this machine with the
limits of the real ones, and time runs `--speed` times as fast. The accounts are connected on the
providers' pages, a worker imports in its cold lane, and the progress page is served, all in one
process.
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

import typer

from headgate import BackfillRequest, HeadgateError, Job, JobState, JobStatus, SystemClock
from headgate.systems.health_history.demo_text import duration_text, next_steps
from headgate.systems.health_history.stage import DemoStage, open_stage
from headgate.toolkit.commands.http_server import build_site, http_server, wait_for_stop
from headgate.toolkit.commands.loading import (
    CONFIG,
    JsonOption,
    exit_code,
    fail,
    log_errors_only,
    run,
)
from headgate.toolkit.commands.output import messages, out, print_json
from headgate.toolkit.commands.watching import (
    ENDED_BADLY,
    LOOK_EVERY_S,
    Screen,
    print_status,
)

USER, PLAN = "ada", "premium"
SESSION = "ada's browser"
#: The progress at which a provider goes down; it comes back once the breaker has opened.
OUTAGE_AT_PERCENT = 30.0


def demo(
    days: Annotated[int, typer.Option(help="How many days to import.", min=1, max=3650)] = 730,
    speed: Annotated[
        float, typer.Option(help="How many times as fast time runs.", min=1, max=1000)
    ] = 240.0,
    port: Annotated[int, typer.Option(help="The progress page's port; 0: any free port.")] = 0,
    stay: Annotated[
        bool | None,
        typer.Option(help="Keep serving the page at the end. By default: in a terminal."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Import two years of history between two sandboxes, with a progress bar and a page."""
    log_errors_only()
    stays = (messages.is_terminal and not json) if stay is None else stay
    try:
        with (
            tempfile.TemporaryDirectory(prefix="headgate-demo-") as folder,
            open_stage(Path(folder), port, days=days, speed=speed) as stage,
        ):
            show = _Demo(stage, days, speed, quiet=json, stays=stays)
            code = run(stage.app, lambda _: show.play_and_close(), json=json, creates=True)
    except ImportError as error:
        fail(f"{error.name} is missing: install headgate[web,sandbox]", code=CONFIG, json=json)
    except HeadgateError as error:
        fail(str(error), code=exit_code(error), json=json, kind=type(error).__name__)
    raise typer.Exit(code)


class _Demo:
    """One backfill, watched from beginning to end."""

    def __init__(
        self, stage: DemoStage, days: int, speed: float, *, quiet: bool, stays: bool
    ) -> None:
        self._stage = stage
        self._app = stage.app
        self._days = days
        self._speed = speed
        self._quiet = quiet
        self._stays = stays

    async def play_and_close(self) -> int:
        try:
            return await self.play()
        finally:
            await self._stage.transport.close()

    async def play(self) -> int:
        self._print(
            f"Ada has {self._days:,} days of Fitbit data and a premium plan. We import her history "
            "into Strava now, the newest day first."
        )
        self._print(
            "Both providers are sandboxes on this machine with the real ones' limits; "
            f"time runs {self._speed:g} times as fast."
        )
        await self._app.users.set_plan(USER, PLAN)
        for source in ("fitbit", "strava"):
            await self._connect(source)
        await self._print_forecast()
        self._print(duration_text(self._days, self._speed))
        web = build_site(self._app, self._stage.keys, self._stage.public_url)
        async with http_server(web, self._stage.listener, stop_s=1), self._working():
            submitted = await self._app.backfills.start(self._request())
            status = await self._watch(submitted.job)
            await self._print_summary(status)
            for line in next_steps():
                self._print(line)
            if self._stays:
                self._print("The page stays up; Ctrl-C ends it.")
                await wait_for_stop()
        return 0 if status.state is JobState.SUCCESS else ENDED_BADLY

    def _request(self) -> BackfillRequest:
        yesterday = self._app.clock.now().date() - timedelta(days=1)
        return BackfillRequest(
            user_id=USER,
            source="fitbit",
            destination="strava",
            start=yesterday - timedelta(days=self._days - 1),
            end=yesterday,
        )

    async def _connect(self, source: str) -> None:
        """Do what Ada's browser does: visit the provider's page, which agrees, and come back."""
        import aiohttp

        back = f"{self._stage.public_url}/connected/{source}"
        connections = self._app.connections
        page = await connections.start(source, user_id=USER, session=SESSION, redirect_uri=back)
        async with aiohttp.ClientSession() as browser:
            async with browser.get(page, allow_redirects=False) as answer:
                answered = dict(parse_qsl(urlsplit(answer.headers["Location"]).query))
        await connections.finish(user_id=USER, session=SESSION, redirect_uri=back, query=answered)

    async def _print_forecast(self) -> None:
        made = await self._app.backfills.forecast(self._request())
        requests = " and ".join(
            f"{each.least:,} to {each.most:,} requests to {each.provider}" for each in made.requests
        )
        self._print(f"Forecast: {made.days:,} days, {requests}. {made.takes}")

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        supervisor = self._app.supervisor()
        await supervisor.start()
        try:
            yield
        finally:
            await supervisor.stop()

    async def _watch(self, job: Job) -> JobStatus:
        self._print(f"Ada's page: {self._page(job)}")
        outage = _Outage(self._stage)
        with Screen() as screen:
            while True:
                status = await self._app.jobs.status(job.id)
                if not self._quiet:
                    screen.show(status)
                if status.ended:
                    return status
                if note := outage.advance(status):
                    self._print(note)
                # In real time, because people watch this.
                await SystemClock().sleep(LOOK_EVERY_S / 2)

    def _page(self, job: Job) -> str:
        from headgate.toolkit.links import Links

        links = Links(self._stage.keys, self._app.clock)
        return self._stage.public_url + links.progress_path(job_id=job.id, user_id=USER)

    async def _print_summary(self, status: JobStatus) -> None:
        if self._quiet:
            print_json(status)
            return
        print_status(status)
        google, strava = self._stage.google, self._stage.strava
        [athlete] = strava.world.athlete_ids
        activities = strava.world.archive(athlete).size
        refused = sum(each.requests.count(status=429) for each in (google, strava))
        over = google.meter.overshoot() + strava.meter.overshoot()
        out.print(
            f"By the providers' own count: {activities:,} activities at Strava, {over} requests "
            f"over a limit, {refused} answers of 429."
        )

    def _print(self, text: str) -> None:
        if not self._quiet:
            # Not wrapped, so that a link can be copied.
            messages.print(text, markup=False, soft_wrap=True)


class _Outage:
    """An outage of Fitbit during the backfill, which shows the breaker at work."""

    def __init__(self, stage: DemoStage) -> None:
        self._faults = stage.google.faults
        self._started = self._over = False

    def advance(self, status: JobStatus) -> str | None:
        """Start or end the outage when it is time; return what to print about it."""
        from headgate.sandbox.kit.faults import Fault, FaultKind

        if not self._started and (status.percent or 0.0) >= OUTAGE_AT_PERCENT:
            self._started = True
            self._faults.add(Fault(kind=FaultKind.OUTAGE))
            return "(Fitbit's servers go down now.)"
        if self._started and not self._over and status.state is JobState.PAUSED:
            self._over = True
            self._faults.clear()
            return (
                "(The breaker has opened: no more requests are sent. Fitbit comes back meanwhile.)"
            )
        return None
