"""`headgate demo`: two years of history, imported day by day while live syncs pass it by.

Everything is real but the provider: the engine, the SQLite file, the worker. Stop it with Ctrl-C,
or kill it, and run it again: it goes on from where it was.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from headgate.app import App
from headgate.base.clock import SystemClock
from headgate.base.errors import ActiveJobExists
from headgate.base.log import configure
from headgate.cli.loading import JsonOption, run
from headgate.cli.output import job_json, messages, out, print_json
from headgate.flow.registry import Sync
from headgate.loops.supervisor import WorkerSettings
from headgate.model.job import Job
from headgate.model.record import CoverageRow
from headgate.model.states import JOB, DayStatus
from headgate.policy.retry import RetryPolicy
from headgate.sandbox.synthetic import SyntheticHealth

HISTORY, LIVE = "history", "live"
USER, CONNECTION = "ada", "ada-synthetic"
LOOK_EVERY_S = 0.1
LIVE_EVERY_S = 0.4

#: A demonstration cannot wait an hour for a breaker to cool down.
IMPATIENT = RetryPolicy(
    backoff_s=0.1, backoff_s_max=0.4, cooldown_s=1.0, pauses_max=1, stagger_s=0.05
)

_SIGNS = {DayStatus.HELD: "█", DayStatus.EMPTY: "░", DayStatus.FAILED: "✘"}


def demo(
    days: Annotated[int, typer.Option(help="How many days to import.", min=1, max=3650)] = 730,
    file: Annotated[Path, typer.Option(help="The SQLite file.")] = Path("headgate-demo.db"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin with an empty file.")] = False,
    json: JsonOption = False,
) -> None:
    """Import a synthetic history on an embedded database, with live syncs passing it by."""
    configure(SystemClock(), json=False, level="error")
    if fresh:
        for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
            file.with_name(name).unlink(missing_ok=True)
    yesterday = SystemClock().now().date() - timedelta(days=1)
    start = yesterday - timedelta(days=days - 1)
    # One day in the middle can never be read: it ends as a visible gap, not as a stuck import.
    source = SyntheticHealth(
        seed=7, latency_s=0.004, failure_share=0.02, poison_days=[start + timedelta(days=days // 2)]
    )
    app = App(
        f"sqlite:///{file}",
        syncs=[
            Sync(name=HISTORY, source=source, retry=IMPATIENT),
            Sync(name=LIVE, source=SyntheticHealth(latency_s=0.002)),
        ],
        # A short lease: after a kill -9 the next run need not wait long to take the job over.
        worker=WorkerSettings(lease_s=5.0, grace_s=3.0),
    )
    run(app, lambda opened: _Demo(opened, file, start, yesterday, quiet=json).play(), json=json)


class _Demo:
    """One performance."""

    def __init__(self, app: App, file: Path, start: date, end: date, *, quiet: bool) -> None:
        self._app = app
        self._file = file
        self._start = start
        self._end = end
        self._quiet = quiet
        self._live = Counter[str]()
        self._slowest_live_s = 0.0

    async def play(self) -> None:
        """Import, watch, sum up; Ctrl-C ends it in peace at any point."""
        job = await self._begin()
        supervisor = self._app.supervisor()
        working = asyncio.create_task(supervisor.run_until_asked(handle_signals=True))
        watching = asyncio.create_task(self._watch(job))
        async with self._live_syncs():
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            supervisor.ask_to_stop()
        await working
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await self._sum_up(await self._app.get(job.id))

    async def _begin(self) -> Job:
        try:
            submitted = await self._app.submit(
                HISTORY,
                user_id=USER,
                connection_id=CONNECTION,
                mode="history",
                start=self._start,
                end=self._end,
            )
        except ActiveJobExists as exists:
            job = await self._app.get(exists.job_id)
            self._say(f"Going on with {job.id}, which had reached {job.cursor_date}.")
            return job
        days = (self._end - self._start).days + 1
        self._say(
            f"Importing {days} days of history for {USER}, newest first, into one SQLite file."
        )
        return submitted.job

    async def _watch(self, job: Job) -> None:
        bar = Progress(
            TextColumn("history"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("days"),
            TimeRemainingColumn(),
        )
        task = bar.add_task("history", total=job.progress.total)
        shows = messages.is_terminal and not self._quiet
        with Live(console=messages, transient=True) if shows else nullcontext() as live:
            while True:
                job = await self._app.get(job.id)
                bar.update(task, completed=job.progress.done)
                if live is not None:
                    live.update(Group(bar, *self._lines(job)))
                if job.state in JOB.terminal:
                    return
                await self._app.clock.sleep(LOOK_EVERY_S)

    def _lines(self, job: Job) -> tuple[Text, Text]:
        count, slowest_ms = self._live["done"], self._slowest_live_s * 1000
        return (
            Text(f"  {self._app.explain(job)}", no_wrap=True, overflow="ellipsis"),
            Text(f"  live syncs meanwhile: {count}, the slowest in {slowest_ms:.0f} ms", "dim"),
        )

    @asynccontextmanager
    async def _live_syncs(self) -> AsyncIterator[None]:
        """Other users' live syncs keep coming; each is timed from submit to done."""
        coming = asyncio.create_task(self._keep_coming())
        try:
            yield
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    async def _keep_coming(self) -> None:
        while True:
            number = self._live["asked"]
            self._live["asked"] += 1
            began = self._app.clock.monotonic()
            submitted = await self._app.submit(
                LIVE,
                user_id=f"visitor-{number % 5}",
                connection_id=f"visitor-{number}-{self._app.name}",
                mode="limit",
                limit=20,
            )
            await self._until_done(submitted.job)
            self._live["done"] += 1
            self._slowest_live_s = max(self._slowest_live_s, self._app.clock.monotonic() - began)
            await self._app.clock.sleep(LIVE_EVERY_S)

    async def _until_done(self, job: Job) -> None:
        while (await self._app.get(job.id)).state not in JOB.terminal:
            await self._app.clock.sleep(0.005)

    async def _sum_up(self, job: Job) -> None:
        if self._quiet:
            print_json(job_json(self._app, job))
            return
        if job.state not in JOB.terminal:
            self._say(
                f"Stopped at {job.progress.percent:g} %. Nothing is lost: "
                "run it again and it goes on from there."
            )
            return
        days = await self._app.coverage(HISTORY, CONNECTION, start=self._start, end=self._end)
        self._print_strip(days)
        done = job.summary
        out.print(
            f"{self._app.explain(job)} {done.records:,} records: {done.inserted:,} new, "
            f"{done.updated:,} changed, {done.unchanged:,} as before. "
            f"{done.errors} failed reads were retried, {done.pauses} breaker pauses."
        )
        out.print(
            f"Meanwhile {self._live['done']} live syncs went by, "
            f"the slowest in {self._slowest_live_s * 1000:.0f} ms."
        )
        out.print(f"next: headgate job events {job.id} -d sqlite:///{self._file}")

    def _print_strip(self, days: Sequence[CoverageRow]) -> None:
        """The history as a strip: a line a year, a mark a week, the worst day of the week."""
        out.print("a mark a week: █ held  ░ empty  ✘ has a day that could not be read")
        weeks: dict[tuple[int, int], list[DayStatus]] = {}
        for row in days:
            weeks.setdefault((row.day.year, row.day.timetuple().tm_yday // 7), []).append(
                row.status
            )
        for year in sorted({year for year, _ in weeks}):
            marks = (
                _week_mark(weeks[year, week]) if (year, week) in weeks else " "
                for week in range(53)
            )
            out.print(f"{year}  {''.join(marks)}")

    def _say(self, text: str) -> None:
        if not self._quiet:
            messages.print(text, markup=False)


def _week_mark(days: Sequence[DayStatus]) -> str:
    for status in (DayStatus.FAILED, DayStatus.HELD):
        if status in days:
            return _SIGNS[status]
    return _SIGNS[DayStatus.EMPTY]
