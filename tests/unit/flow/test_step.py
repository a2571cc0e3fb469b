"""A probe's step: who is set free by what becomes of it."""

import random
from datetime import date, timedelta
from typing import cast

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import Transient
from headgate.base.ids import UlidIds
from headgate.flow.holding import Holding
from headgate.flow.registry import Registry, Sync
from headgate.flow.runtime import Runtime
from headgate.flow.step import step
from headgate.model.change import Change
from headgate.model.job import Job, Mode
from headgate.model.states import JobState
from headgate.ports.connector import Chunk, Context
from headgate.ports.signal import SWEEP, Signal
from headgate.ports.store import Store, Work
from tests.unit.values import NOW, fetching, gates, make_job

FIRST, LAST = date(2026, 1, 1), date(2026, 1, 2)


class Fitbit:
    name = "fitbit"

    def __init__(self, *, down: bool) -> None:
        self._down = down

    async def read(self, ctx: Context) -> Chunk:
        if self._down:
            raise Transient
        return Chunk()


class Recorder:
    """A store and a signal that take everything, and note whom they set free."""

    def __init__(self) -> None:
        self.released: list[str] = []
        self.announced: list[str] = []

    async def settle(self, change: Change, work: Work | None = None) -> Job:
        return change.after

    async def release_provider(self, source: str, *, stagger: timedelta, limit: int) -> int:
        self.released.append(source)
        return 1

    async def announce(self, topic: str) -> None:
        self.announced.append(topic)


async def stepped(job: Job, *, down: bool) -> tuple[Job, Recorder]:
    """The job after one step, and what was noted."""
    recorder, clock, rng = Recorder(), ManualClock(NOW), random.Random(0)
    rt = Runtime(
        store=cast(Store, recorder),
        signal=cast(Signal, recorder),
        clock=clock,
        ids=UlidIds(clock, rng),
        rng=rng,
        gates=gates(clock, rng),
        fetching=fetching(clock),
        registry=Registry([Sync(name="history", source=Fitbit(down=down))]),
    )
    after = await step(rt, Holding(job), slice_ends=clock.monotonic() + 9)
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
    after, recorder = await stepped(reading(day), down=True)

    assert after.summary.days_failed == 1
    assert (recorder.released, recorder.announced) == ([], [])


async def test_a_probe_that_fails_is_no_recovery() -> None:
    after, recorder = await stepped(reading(LAST, pauses=0), down=True)

    assert after.state is JobState.PAUSED
    assert recorder.released == []


async def test_a_job_that_is_no_probe_sets_nobody_free() -> None:
    _, recorder = await stepped(reading(LAST, probe=False), down=False)

    assert recorder.released == []
