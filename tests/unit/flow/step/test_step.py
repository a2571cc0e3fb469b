"""One step of a job: who is set free by a probe, and what a store does that takes nothing."""

from datetime import date, timedelta

import pytest

from headgate.base.errors import StoreUnavailable, Transient
from headgate.flow.leases.settle import SETTLE_RESTS_S
from headgate.flow.registry import Sync
from headgate.flow.step.claimed_job import ClaimedJob, Interrupt
from headgate.flow.step.step import step
from headgate.model.change import JobChange
from headgate.model.job import Job, Mode
from headgate.model.record import CoverageRow
from headgate.model.states import JobState
from headgate.ports.connector import Chunk, Context
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.signal import SWEEP
from tests.unit.values import NOW, make_job, runtime

FIRST, LAST = date(2026, 1, 1), date(2026, 1, 2)


class Fitbit:
    name = "fitbit"

    def __init__(self, *, down: bool = False, bad_day: date | None = None) -> None:
        self._down = down
        self._bad_day = bad_day

    async def read(self, ctx: Context) -> Chunk:
        if self._down or ctx.day == self._bad_day:
            raise Transient
        return Chunk()


class Recorder:
    """A store and a signal that take everything, and note whom they set free."""

    def __init__(self, *, fails: Exception | None = None) -> None:
        self.fails = fails
        self.settled: list[JobChange] = []
        self.released: list[str] = []
        self.announced: list[str] = []

    async def settle(self, change: JobChange, work: ChunkWork | None = None) -> Job:
        self.settled.append(change)
        if self.fails is not None:
            raise self.fails
        return change.after

    async def fails_others(self, job: Job, provider: str, *, pauses_below: int) -> bool:
        return False

    async def list_days(self, *_: object) -> list[CoverageRow]:
        return []

    async def release_provider(self, source: str, *, stagger: timedelta, limit: int) -> int:
        self.released.append(source)
        return 1

    async def announce(self, topic: str, *_: object, **__: object) -> None:
        self.announced.append(topic)


async def stepped(
    job: Job, *, down: bool = False, bad_day: date | None = None
) -> tuple[Job, Recorder]:
    """The job after one step, and what was noted."""
    recorder = Recorder()
    rt = runtime(recorder, Sync(name="history", source=Fitbit(down=down, bad_day=bad_day)))
    after = await step(rt, ClaimedJob(job), slice_ends=rt.clock.monotonic() + 9)
    assert after is not None
    return after, recorder


def reading(day: date, *, probe: bool = True, pauses: int = 3) -> Job:
    """A job that reads the first two days of the year, now at `day`."""
    return make_job(
        state=JobState.RUNNING,
        mode=Mode.HISTORY,
        start_date=FIRST,
        end_date=LAST,
        cursor=day.isoformat(),
        probe=probe,
        pauses=pauses,
    )


@pytest.mark.parametrize("day", [FIRST, LAST])
async def test_a_probe_that_gets_through_sets_the_others_free(day: date) -> None:
    after, recorder = await stepped(reading(day), down=False)

    assert after.summary.chunks == 1
    assert (recorder.released, recorder.announced) == (["fitbit"], [SWEEP])


@pytest.mark.parametrize("day", [FIRST, LAST])
async def test_a_day_that_a_probe_gives_up_is_no_recovery(day: date) -> None:
    after, recorder = await stepped(reading(day), bad_day=day)

    assert after.summary.days_failed == 1
    assert (recorder.released, recorder.announced) == ([], [])


async def test_a_probe_that_fails_is_no_recovery() -> None:
    after, recorder = await stepped(reading(LAST, pauses=0), down=True)

    assert after.state is JobState.PAUSED
    assert recorder.released == []


async def test_a_job_that_is_no_probe_sets_nobody_free() -> None:
    _, recorder = await stepped(reading(LAST, probe=False), down=False)

    assert recorder.released == []


async def test_a_store_that_stays_away_is_asked_for_a_while_and_then_left_alone() -> None:
    # Given a store that does not come back
    recorder = Recorder(fails=StoreUnavailable())
    rt = runtime(recorder, Sync(name="history", source=Fitbit(down=False)))

    with pytest.raises(StoreUnavailable):
        await step(rt, ClaimedJob(reading(LAST)), slice_ends=0.0)

    # Then the same outcome was tried again after every rest, and nobody was set free
    assert len(recorder.settled) == 1 + len(SETTLE_RESTS_S)
    assert len({id(change) for change in recorder.settled}) == 1
    assert rt.clock.now() == NOW + timedelta(seconds=sum(SETTLE_RESTS_S))
    assert recorder.released == []


async def test_a_worker_that_lost_its_claim_writes_nothing() -> None:
    # Given a job that another worker has taken meanwhile
    recorder = Recorder()
    rt = runtime(recorder, Sync(name="history", source=Fitbit(down=False)))
    holding = ClaimedJob(reading(LAST))
    holding.interrupt(Interrupt.LOST)

    # Then the step ends without a word: whatever it wrote would be about another's job
    assert await step(rt, holding, slice_ends=0.0) is None
    assert (recorder.settled, recorder.released) == ([], [])
