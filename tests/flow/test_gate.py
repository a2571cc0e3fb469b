"""The gate: short waits are waited out, long ones put the job off, and nothing is burnt."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from headgate import (
    App,
    Budget,
    Chunk,
    Context,
    JobState,
    Lane,
    Limit,
    Reason,
    RetryPolicy,
    Sync,
    Transient,
)
from headgate.model.budget import Answer, BudgetRequest, Unreachable
from headgate.policy.spending import local_share
from headgate.ports.limiter import Limiter
from headgate.types import Job
from headgate_sandbox.kit.meter import Meter
from headgate_sandbox.kit.windows import Window
from tests.worlds import START, Read, ScriptedSource, World, with_world

#: Ten in a quarter of an hour, two of them for live work.
TEN = Budget("limited", [Limit(10, per="15min", reserve=2)], paced=False)


class Limited(ScriptedSource):
    """A scripted source under a budget."""

    def __init__(self, read: Read, budget: Budget = TEN) -> None:
        super().__init__(read, name=budget.source)
        self.budget = budget


def requests(count: int, *, essential: bool = False) -> Read:
    """A read that sends so many requests, one after another."""

    async def read(ctx: Context) -> Chunk:
        for _ in range(count):
            async with ctx.gate.request(essential=essential):
                pass
        return Chunk()

    return read


async def submit(app: App, lane: Lane = Lane.HOT, user: str = "c1", sync: str = "s") -> Job:
    submitted = await app.jobs.submit(sync, user_id=user, lane=lane)
    return submitted.job


async def used(app: App) -> int:
    [use] = await app.budgets.use()
    return use.windows[0].used


class AwayLimiter:
    """A limiter that can be unplugged."""

    def __init__(self, app: App) -> None:
        self._real = app._limiter
        self.away = True
        self.charged: Counter[str] = Counter()
        gates = app._runtime.gates
        gates._limiter = cast(Limiter, self)

    async def acquire(self, budget: Budget, ask: BudgetRequest, *, grant_id: str) -> Answer:
        if self.away:
            return Unreachable(error="connection refused")
        return await self._real.acquire(budget, ask, grant_id=grant_id)

    async def charge(self, budget: Budget, ask: BudgetRequest, *, times: int) -> None:
        self.charged[budget.source] += times
        await self._real.charge(budget, ask, times=times)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@with_world
async def test_a_spent_budget_puts_the_job_off_until_the_window_ends(world: World) -> None:
    # Given a live job that needs more requests than the window has
    app = await world.app(Sync(name="s", source=Limited(requests(11))))
    job = await submit(app)

    # When it is worked on
    await app.supervisor().start()
    await world.clock.sleep(60)

    # Then it waits for the next window, says so, and nothing is burnt
    put_off = await app.jobs.get(job.id)
    assert (put_off.state, put_off.reason) == (JobState.PENDING, Reason.RATE_LIMITED)
    assert put_off.wake_at == datetime(2026, 1, 1, 0, 15, 2, tzinfo=UTC)
    assert (put_off.attempts, put_off.summary.errors, put_off.deferrals) == (0, 0, 1)
    assert await used(app) == 10


@with_world
async def test_a_short_wait_is_waited_out(world: World) -> None:
    # Given backfill that is paced to one request in ten seconds
    budget = Budget("limited", [Limit(90, per="15min")])
    app = await world.at_work(Sync(name="s", source=Limited(requests(5), budget)))
    job = await submit(app, Lane.COLD)

    # Then five of them take forty seconds, in one try
    done = await world.until(app, job.id, limit_s=100)
    assert done.state is JobState.SUCCESS
    assert done.summary.deferrals == 0
    assert 40 <= world.clock.monotonic() <= 45


@with_world
async def test_what_we_hold_back_ourselves_never_opens_the_breaker(world: World) -> None:
    # Given a policy that takes the second deferral for an outage, and a budget of one a minute
    budget = Budget("limited", [Limit(1, per="min")], paced=False)
    sync = Sync(name="s", source=Limited(requests(1), budget), retry=RetryPolicy(deferrals_max=1))
    app = await world.at_work(sync)
    jobs = [await submit(app, user=f"c{number}") for number in range(5)]

    # Then each has its turn, however often it was put off
    for job in jobs:
        done = await world.until(app, job.id, limit_s=3600)
        assert (done.state, done.summary.pauses) == (JobState.SUCCESS, 0)


@with_world
async def test_a_429_closes_the_budget_for_everybody(world: World) -> None:
    async def refused(ctx: Context) -> Chunk:
        async with ctx.gate.request() as passage:
            raise await passage.close_budget(retry_after_s=300)

    source = Limited(requests(1))
    app = await world.at_work(
        Sync(name="refused", source=Limited(refused)), Sync(name="s", source=source)
    )
    first = await submit(app, sync="refused")
    await world.until(app, first.id, JobState.PENDING)
    await world.clock.sleep(1)

    # When another job comes
    other = await submit(app, user="c2")
    await world.clock.sleep(1)

    # Then it sends nothing before the budget opens again
    waiting = await app.jobs.get(other.id)
    assert (waiting.state, waiting.reason) == (JobState.PENDING, Reason.RATE_LIMITED)
    assert waiting.wake_at is not None
    assert 299 <= (waiting.wake_at - START).total_seconds() <= 303
    assert await used(app) == 1
    [use] = await app.budgets.use()
    assert use.answers_429_24h == 1
    assert (await world.until(app, other.id, limit_s=400)).state is JobState.SUCCESS


@pytest.mark.parametrize(
    ("lane", "essential", "goes_on"),
    [
        (Lane.HOT, True, True),
        (Lane.HOT, False, False),
        (Lane.COLD, True, False),
        (Lane.COLD, False, False),
    ],
)
@with_world
async def test_without_the_limiter_only_essential_live_work_goes_on(
    world: World, lane: Lane, essential: bool, goes_on: bool
) -> None:
    source = Limited(requests(1, essential=essential))
    app = await world.app(Sync(name="s", source=source))
    limiter = AwayLimiter(app)
    job = await submit(app, lane)
    await app.supervisor().start()
    await world.clock.sleep(5)

    found = await app.jobs.get(job.id)
    if goes_on:
        assert found.state is JobState.SUCCESS
    else:
        assert (found.state, found.reason) == (JobState.PENDING, Reason.NO_LIMITER)
        assert (found.attempts, found.summary.errors) == (0, 0)
        limiter.away = False
        assert (await world.until(app, job.id, limit_s=60)).state is JobState.SUCCESS


@with_world
async def test_the_local_share_is_small_and_is_told_when_the_limiter_is_back(world: World) -> None:
    # Given a limiter that is away, and more essential live work than the share allows
    budget = Budget("limited", [Limit(50, per="15min")])
    app = await world.app(Sync(name="s", source=Limited(requests(1, essential=True), budget)))
    limiter = AwayLimiter(app)
    await app.supervisor().start()
    jobs = [await submit(app, user=f"c{number}") for number in range(8)]
    await world.clock.sleep(60)

    # Then a tenth goes through, and the rest waits for the next window of the share
    states = Counter([(await app.jobs.get(job.id)).state for job in jobs])
    assert states == {JobState.SUCCESS: 5, JobState.PENDING: 3}

    # And what was spent is told to the limiter when it is back
    limiter.away = False
    last = await submit(app, user="last")
    assert (await world.until(app, last.id, limit_s=60)).state is JobState.SUCCESS
    assert limiter.charged["limited"] == 5
    assert await used(app) == 6


def test_a_share_is_never_nothing() -> None:
    share = local_share(Budget("small", [Limit(3, per="15min", reserve=1)], slots=4))

    assert (share.limits[0].amount, share.limits[0].reserve, share.slots) == (1, 0, None)


@with_world
async def test_a_slot_is_given_back_though_the_source_failed(world: World) -> None:
    # Given one slot, and a source that fails with it in its hands
    failures = iter([True, False])

    async def read(ctx: Context) -> Chunk:
        async with ctx.gate.request(retry=ctx.chunks > 0):
            if next(failures):
                raise Transient("reset by peer")
        return Chunk()

    budget = Budget("limited", [Limit(10, per="15min")], slots=1, slot_lease_s=3600)
    app = await world.at_work(Sync(name="s", source=Limited(read, budget)))
    job = await submit(app)

    # Then the next try has it, and both tries were counted
    assert (await world.until(app, job.id, limit_s=60)).state is JobState.SUCCESS
    [use] = await app.budgets.use()
    assert (use.slots_used, use.windows[0].used) == (0, 2)


@with_world
async def test_a_source_without_a_budget_passes_freely(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        for _ in range(100):
            async with ctx.gate.request() as passage:
                assert passage.remaining is None
        async with ctx.gate.request() as passage:
            if ctx.clock.now() == START:
                raise await passage.close_budget(retry_after_s=30)
        return Chunk()

    app = await world.at_work(Sync(name="s", source=ScriptedSource(read)))
    job = await submit(app)
    assert (await world.until(app, job.id, limit_s=60)).state is JobState.SUCCESS
    assert world.clock.monotonic() >= 30
    assert await app.budgets.use() == []


@with_world
async def test_backfills_that_wait_for_the_pace_go_one_after_another(world: World) -> None:
    # Given four backfills at once under one paced budget
    sent: list[str] = []

    async def read(ctx: Context) -> Chunk:
        for _ in range(5):
            async with ctx.gate.request():
                sent.append(ctx.connection_id)
        return Chunk()

    paced = Budget("limited", [Limit(100, per="15min")])
    app = await world.app(Sync(name="s", source=Limited(read, paced), chunk_s_max=600))
    jobs = [await submit(app, Lane.COLD, f"c{number}") for number in range(4)]
    await app.supervisor().start()
    for job in jobs:
        assert (await world.until(app, job.id)).state is JobState.SUCCESS

    # Then nobody is served again before everybody who waits was
    assert len(sent) == 20
    for begin in range(0, 20, 4):
        assert len(set(sent[begin : begin + 4])) == 4


# ---- a network that stalls over the edge of a window -------------------------------------------


@pytest.mark.parametrize("slots", [8, 40])
@with_world
async def test_a_network_that_stalls_over_an_edge_does_not_double_what_arrives(
    world: World, slots: int
) -> None:
    # Given a provider of twenty a minute, and a network that holds everything up, so that it
    # arrives when the next minute has begun
    budget = Budget("limited", [Limit(20, per="min")], slots=slots, paced=False)
    minute = Window(name="min", limit=20, seconds=60)
    meter = Meter(world.clock, [minute])
    over_at = world.clock.monotonic() + 63.0

    async def send(ctx: Context) -> None:
        async with ctx.gate.request():
            await ctx.clock.sleep(max(0.0, over_at - ctx.clock.monotonic()))
            meter.arrive()

    async def read(ctx: Context) -> Chunk:
        await asyncio.gather(*(send(ctx) for _ in range(20)))
        return Chunk()

    # When twenty are sent ten seconds before the edge, and then twenty more
    app = await world.app(Sync(name="s", source=Limited(read, budget)))
    await world.clock.sleep(50)
    await app.supervisor().start()
    jobs = [await submit(app, user=name) for name in ("c1", "c2")]
    for job in jobs:
        assert (await world.until(app, job.id)).state is JobState.SUCCESS

    # Then no minute has seen more than it allows
    assert meter.overshoot() == 0
    assert len(meter.tallies("min")) > 1
