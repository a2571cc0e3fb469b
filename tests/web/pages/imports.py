"""An import from Fitbit into Strava, brought to any state by legal changes, with nobody working."""

from datetime import date, timedelta
from typing import Any

from msgspec.structs import replace

from headgate import App, Chunk, Context, Sync
from headgate.model import change
from headgate.model.change import ChunkResult, JobChange
from headgate.model.job import Lane, Mode, Progress, Reason
from headgate.model.pace import Effort
from headgate.model.record import Coverage
from headgate.model.states import DayStatus, JobState
from headgate.policy.calendar import history_progress
from headgate.policy.pace import add_chunk
from headgate.ports.connector import Batch, WriteResult
from headgate.ports.jobs.store import ChunkWork
from headgate.types import Job

FIRST, LAST = date(2021, 1, 1), date(2023, 1, 1)
DAYS = (LAST - FIRST).days + 1
LEASE = timedelta(minutes=5)
USER = "ada"


class Fitbit:
    name, title = "fitbit", "Fitbit"

    async def read(self, ctx: Context) -> Chunk:
        raise AssertionError("nobody works here")


class Strava:
    name, title = "strava", "Strava"

    async def write(self, batch: Batch) -> WriteResult | None:
        raise AssertionError("nobody works here")


def syncs() -> list[Sync]:
    """Days from Fitbit into Strava, and notes that stay here."""
    return [
        Sync(name="days", source=Fitbit(), destination=Strava()),
        Sync(name="notes", source=Fitbit()),
    ]


class Import:
    """One job, and a worker that does as it is told."""

    def __init__(self, app: App, job: Job) -> None:
        self._app = app
        self.job = job

    @classmethod
    async def begin(cls, app: App, **fields: Any) -> "Import":
        """Submit it: the history from Fitbit to Strava, unless told otherwise."""
        days = {"start_date": FIRST, "end_date": LAST}
        asked: dict[str, Any] = {"mode": Mode.HISTORY, **days, **fields}
        sync = asked.pop("sync", "days")
        submitted = await app.jobs.submit(sync, user_id=USER, **asked)
        return cls(app, submitted.job)

    @property
    def id(self) -> str:
        return self.job.id

    async def claim(self) -> "Import":
        lane = Lane.COLD if self.job.mode is Mode.HISTORY else Lane.HOT
        [self.job] = (
            await self._app._runtime.jobs.claim(lane, worker="worker-1", limit=1, lease=LEASE)
        ).jobs
        return self

    async def days(self, count: int, *, records: int = 2, empty: int = 0) -> "Import":
        """So many days more are done, in one step."""
        done = self.job.progress.done + count
        counted = change.count(
            self.job.summary,
            records=records * count,
            delivered=records * count,
            days_held=count - empty,
            days_empty=empty,
        )
        now = self._app.clock.now()
        effort = Effort(began_at=self.job.attempted_at or now, ended_at=now)
        pace = add_chunk(counted.pace, effort, units=count, followed=True)
        counted = replace(counted, pace=pace)
        return await self.settle(change.advance(self.job, self._tally(done, counted), {}))

    async def last_days(self) -> "Import":
        """All that were left."""
        counted = change.count(self.job.summary, records=1, delivered=1)
        return await self.settle(change.succeed(self.job, self._tally(DAYS, counted), {}))

    async def pages(self, done: int, total: int | None) -> "Import":
        """A step of an import that is not by days, as far as its source says."""
        tally = ChunkResult(
            cursor="next",
            progress=Progress(done=done, total=total),
            summary=change.count(self.job.summary, records=1),
        )
        return await self.settle(change.advance(self.job, tally, {}))

    async def gap(self, error: str) -> "Import":
        """The present day is given up."""
        day, done = self._day(), self.job.progress.done + 1
        counted = change.count(self.job.summary, days_failed=1)
        skipped = change.skip(
            self.job, self._tally(done, counted), error=error, day=day, last=False
        )
        coverage = Coverage(day=day, status=DayStatus.FAILED, error=error)
        await self.settle(skipped, ChunkWork(coverage=coverage))
        return await self.claim()

    async def refused(self, reason: str) -> "Import":
        """The present day is done, but for one record that the destination did not take."""
        day, done = self._day(), self.job.progress.done + 1
        counted = change.count(self.job.summary, records=3, delivered=2, refused=1, days_held=1)
        step = change.advance(self.job, self._tally(done, counted), {})
        coverage = Coverage(day=day, status=DayStatus.HELD, records=3, error=reason)
        return await self.settle(step, ChunkWork(coverage=coverage))

    async def pause(self, *, minutes: int = 60) -> "Import":
        """The breaker opens."""
        cooldown = timedelta(minutes=minutes)
        error = "Transient: fitbit said 503"
        return await self.settle(change.open_breaker(self.job, cooldown=cooldown, error=error))

    async def wait(self, *, minutes: int = 10) -> "Import":
        """The provider's limit is spent."""
        after = timedelta(minutes=minutes)
        reason = Reason.RATE_LIMITED
        return await self.settle(change.defer(self.job, after=after, reason=reason, note="spent"))

    async def fail(self, error: str, reason: Reason = Reason.REFUSED) -> "Import":
        return await self.settle(change.fail(self.job, reason=reason, error=error))

    async def end(self) -> None:
        """Nothing more happens, whatever it was doing."""
        now = await self._app.jobs.get(self.id)
        if now.state in (JobState.RUNNING, JobState.CANCELLING):
            await self.fail("over")
        elif not now.ended:
            await self._app.jobs.cancel(self.id)

    async def settle(self, wanted: JobChange, work: ChunkWork | None = None) -> "Import":
        settled = await self._app._runtime.jobs.settle(wanted, work)
        assert settled is not None
        self.job = settled
        return self

    def _day(self) -> date:
        day = self.job.cursor_date
        assert day is not None
        return day

    def _tally(self, done: int, summary: Any) -> ChunkResult:
        next_day = LAST - timedelta(days=done)
        ahead = next_day if done < DAYS else None
        return ChunkResult(
            cursor=max(next_day, FIRST).isoformat(),
            progress=history_progress(self.job.plan, ahead),
            summary=summary,
        )
