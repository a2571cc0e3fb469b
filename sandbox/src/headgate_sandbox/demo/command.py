"""`headgate demo`: imports two years of a premium user's Fitbit data into Strava while you watch.

Only the providers and the time are not real. The providers are sandboxes on this machine with the
limits of the real ones, and time runs `--speed` times as fast. The accounts are connected on the
providers' pages, a worker imports in its cold lane, and the progress page is served, all in one
process.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

import typer

from headgate import HeadgateError, JobRequest, JobState
from headgate.toolkit.commands import (
    CONFIG,
    ENDED_BADLY,
    LOOK_EVERY_S,
    JsonOption,
    Screen,
    build_site,
    example,
    exit_code,
    fail,
    log_errors_only,
    messages,
    out,
    print_json,
    print_status,
    progress_text,
    run,
    serve_http,
    stop_on_signals,
)
from headgate.types import Job, JobStatus
from headgate_sandbox.demo.stage import DemoStage, open_stage
from headgate_sandbox.demo.text import duration_text, next_steps, sharers
from headgate_sandbox.kit.faults import Fault, FaultKind

USER, PLAN = "ada", "premium"
SESSION = "ada's browser"
#: The progress at which a provider goes down; it comes back once the breaker has opened.
OUTAGE_AT_PERCENT = 30.0


@example("headgate demo --days 90 --speed 500")
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
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, also if an import was stopped half-way.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Where it is remembered. By default: for this user.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Import two years of history between two sandboxes, with a progress bar and a page.

    Stop it with Ctrl-C, or kill it: the next call goes on where it was.
    """
    log_errors_only()
    stays = (messages.is_terminal and not json) if stay is None else stay
    try:
        path = folder or Path(typer.get_app_dir("headgate")) / "demo"
        with open_stage(path, port, days=days, speed=speed, fresh=fresh) as stage:
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
        with stop_on_signals(say="") as stop:
            self._print_beginning()
            await self._app.users.set_plan(USER, PLAN)
            for source in ("fitbit", "strava"):
                await self._connect(source)
            job = await self._find_job()
            if job is None:
                await self._print_forecast()
                self._print(duration_text(self._days, self._speed, sharers=sharers()))
            web = build_site(self._app, self._stage.keys, self._stage.public_url)
            async with serve_http(web, self._stage.listener, stop_s=1), self._working():
                if job is None:
                    job = (await self._app.jobs.submit(self._request())).job
                status = await self._watch(job, stop)
                if status.ended:
                    self._stage.folder.end()
                    await self._print_summary(status)
                    for line in next_steps():
                        self._print(line)
                    if self._stays and not stop.is_set():
                        self._print("The page stays up; Ctrl-C ends it.")
                        await stop.wait()
        if not status.ended:
            self._print_stop(await self._app.jobs.status(job.id))
            return 0
        return 0 if status.state is JobState.SUCCESS else ENDED_BADLY

    def _print_beginning(self) -> None:
        self._print(
            f"Ada has {self._days:,} days of Fitbit data and a premium plan. We import her history "
            "into Strava now, the newest day first."
        )
        self._print(
            "Both providers are sandboxes on this machine with the real ones' limits; "
            f"time runs {self._speed:g} times as fast."
        )

    async def _find_job(self) -> Job | None:
        """The import that goes on, if one was begun."""
        found = await self._app.jobs.list(user_id=USER, limit=1)
        if not found:
            return None
        status = await self._app.jobs.status(found[0].id)
        self._print(
            f"It goes on where it was stopped, after {progress_text(status)}. "
            "To begin anew: headgate demo --fresh"
        )
        return found[0]

    def _print_stop(self, status: JobStatus) -> None:
        if self._quiet:
            print_json(status)
            return
        self._print(
            f"Stopped after {progress_text(status)}. Nothing is lost: start it again, and it goes "
            "on from there."
        )

    def _request(self) -> JobRequest:
        yesterday = self._app.clock.now().date() - timedelta(days=1)
        return JobRequest(
            user_id=USER,
            source="fitbit",
            destination="strava",
            start_date=yesterday - timedelta(days=self._days - 1),
            end_date=yesterday,
        )

    async def _connect(self, source: str) -> None:
        """Do what Ada's browser does: visit the provider's page, which agrees, and come back."""
        import aiohttp

        connections = self._app.connections
        if any(each.source == source for each in await connections.of_user(USER)):
            return
        back = f"{self._stage.public_url}/connected/{source}"
        page = await connections.start(source, user_id=USER, session=SESSION, redirect_uri=back)
        async with aiohttp.ClientSession() as browser:
            async with browser.get(page, allow_redirects=False) as answer:
                answered = dict(parse_qsl(urlsplit(answer.headers["Location"]).query))
        await connections.finish(user_id=USER, session=SESSION, redirect_uri=back, query=answered)

    async def _print_forecast(self) -> None:
        made = await self._app.jobs.forecast(self._request())
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

    async def _watch(self, job: Job, stop: asyncio.Event) -> JobStatus:
        """Show the import until it ends, or until somebody stops it."""
        # Not wrapped, so that the link can be copied.
        self._print(f"Ada's page: {self._page(job)}", soft_wrap=True)
        outage = _Outage(self._stage, job)
        with Screen() as screen:
            while True:
                status = await self._app.jobs.status(job.id)
                if not self._quiet:
                    screen.show(status)
                if status.ended or stop.is_set():
                    return status
                if note := outage.advance(status):
                    self._print(note)
                # In real time, because people watch this.
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), LOOK_EVERY_S / 2)

    def _page(self, job: Job) -> str:
        from headgate.toolkit import Links

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

    def _print(self, text: str, *, soft_wrap: bool | None = None) -> None:
        if not self._quiet:
            messages.print(text, markup=False, soft_wrap=soft_wrap)


class _Outage:
    """An outage of Fitbit during the backfill, which shows the breaker at work."""

    def __init__(self, stage: DemoStage, job: Job) -> None:
        self._faults = stage.google.faults
        # Providers that were started again work, whatever was wrong with them before.
        self._started = self._over = (job.progress.percent or 0.0) >= OUTAGE_AT_PERCENT

    def advance(self, status: JobStatus) -> str | None:
        """Start or end the outage when it is time; return what to print about it."""
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
