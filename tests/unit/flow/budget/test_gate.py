"""The gates of one process before a limiter that comes and goes."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from random import Random

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import BudgetSpent, LimiterUnreachable, RateLimited, StoreUnavailable
from headgate.base.ids import UlidIds
from headgate.flow.budget.gate import BudgetGate, JobGate
from headgate.limits.memory import MemoryLimiter
from headgate.model.budget import (
    Answer,
    Budget,
    BudgetClosure,
    BudgetRequest,
    BudgetUse,
    Granted,
    Limit,
    Unreachable,
)
from headgate.model.job import Lane
from tests.unit.values import NOW

BUDGET = Budget("limited", [Limit(50, per="15min"), Limit(300, per="day")], paced=False)
#: Five past noon: far from any edge.
START = NOW + timedelta(minutes=5)
QUARTER = NOW + timedelta(minutes=15, seconds=2)


class Flaky(MemoryLimiter):
    """A limiter that is away when the test says so, and may hang when it is told what is owed."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.away = False
        self.hangs = False
        self.hanging = asyncio.Event()
        #: How long its next answers are on their way.
        self.stalls_s: list[float] = []
        self.asked: list[BudgetRequest] = []

    async def acquire(self, budget: Budget, ask: BudgetRequest, *, grant_id: str) -> Answer:
        self.asked.append(ask)
        if self.away:
            return Unreachable(error="connection refused")
        answer = await super().acquire(budget, ask, grant_id=grant_id)
        if self.stalls_s:
            await self._clock.sleep(self.stalls_s.pop(0))
        return answer

    async def charge(self, budget: Budget, ask: BudgetRequest, *, times: int) -> None:
        self._reach()
        if self.hangs:
            self.hanging.set()
            await asyncio.Event().wait()
        await super().charge(budget, ask, times=times)

    async def observe(
        self, budget: Budget, ask: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        self._reach()
        await super().observe(budget, ask, grant, counts)

    async def close_budget(
        self,
        budget: Budget,
        ask: BudgetRequest,
        *,
        retry_after_s: float | None,
        limit: str | None = None,
    ) -> BudgetClosure:
        self._reach()
        return await super().close_budget(budget, ask, retry_after_s=retry_after_s, limit=limit)

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        self._reach()
        return await super().use(budget, connection_id=connection_id)

    async def release(self, budget: Budget, ask: BudgetRequest, grant: Granted) -> None:
        self._reach()
        await super().release(budget, ask, grant)

    def _reach(self) -> None:
        if self.away:
            raise StoreUnavailable


class Site:
    """One process: its gates, its limiter, its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.limiter = Flaky(self.clock)
        ids = UlidIds(self.clock, Random(1))
        self.gates = BudgetGate(self.limiter, MemoryLimiter(self.clock), self.clock, ids)

    def gate(self, budget: Budget | None = BUDGET, lane: Lane = Lane.HOT) -> JobGate:
        return self.gates.of(budget, lane, "connection_1")

    async def send(self, *, essential: bool = False) -> None:
        async with self.gate().request(essential=essential):
            pass

    async def used(self) -> int:
        # What it has counted, whether or not anybody reaches it.
        return (await MemoryLimiter.use(self.limiter, BUDGET, connection_id=None)).windows[0].used


@pytest.fixture
def site() -> Site:
    return Site()


async def test_every_retry_asks_again_and_says_that_it_is_one(site: Site) -> None:
    # Given a source that repeats a request twice
    gate = site.gate()
    for attempt in range(3):
        async with gate.request(kind="upload", retry=attempt > 0):
            pass

    # Then each of the three was asked for, and counted
    assert [(ask.kind, ask.retry) for ask in site.limiter.asked] == [
        ("upload", False),
        ("upload", True),
        ("upload", True),
    ]
    [window, _] = (await site.limiter.use(BUDGET, connection_id=None)).windows
    assert (window.used, window.retries) == (3, 2)


async def test_a_source_is_told_what_is_left(site: Site) -> None:
    async with site.gate().request() as passage:
        assert passage.remaining == 49
        await passage.observe_counts({"15min": 40})
    async with site.gate().request() as passage:
        assert passage.remaining == 9


async def test_how_a_budget_stands_is_not_known_while_the_limiter_is_away(site: Site) -> None:
    await site.send()

    before = await site.gates.use(BUDGET)
    site.limiter.away = True
    meanwhile = await site.gates.use(BUDGET)

    assert before is not None and before.windows[0].used == 1
    assert meanwhile is None


async def test_a_429_that_the_limiter_cannot_be_told_still_puts_the_job_off(site: Site) -> None:
    # Given a limiter that goes away while a request is under way
    async with site.gate().request() as passage:
        site.limiter.away = True

        # When the provider refuses the request
        error = await passage.close_budget()
        told = await passage.close_budget(retry_after_s=7200)

    # Then the job waits as it would, and its attempts are left alone: this is no failure
    assert isinstance(error, RateLimited)
    assert error.after == QUARTER - START
    assert told.after == timedelta(seconds=7200)

    # And this process sends nothing more on its own
    with pytest.raises(BudgetSpent) as caught:
        await site.send(essential=True)
    assert caught.value.after == told.after


async def test_counts_and_slots_that_cannot_be_told_are_no_failure(site: Site) -> None:
    budget = Budget("slots", [Limit(50, per="15min")], slots=2)
    async with site.gate(budget).request() as passage:
        site.limiter.away = True
        await passage.observe_counts({"15min": 5})


async def test_the_share_goes_on_whatever_everybody_has_used(site: Site) -> None:
    # Given a limiter that is away, and a provider that tells that forty of fifty are used
    site.limiter.away = True
    for _ in range(5):
        async with site.gate().request(essential=True) as passage:
            await passage.observe_counts({"15min": 40, "day": 200})

    # Then the whole share was there, a tenth, and then nothing
    with pytest.raises(BudgetSpent):
        await site.send(essential=True)


async def test_the_share_ends_when_the_provider_says_that_nothing_is_left(site: Site) -> None:
    # Given a limiter that is away, and a provider that tells that the day is spent
    site.limiter.away = True
    async with site.gate().request(essential=True) as passage:
        await passage.observe_counts({"15min": 3, "day": 300})

    # Then nothing more is sent until midnight
    with pytest.raises(BudgetSpent) as caught:
        await site.send(essential=True)
    opens = site.clock.now() + caught.value.after
    assert opens.date() == (NOW + timedelta(days=1)).date()


async def test_what_is_owed_is_not_forgotten_by_a_job_that_is_cut_off(site: Site) -> None:
    # Given something owed, and a limiter that hangs when it is told
    site.limiter.away = True
    for _ in range(3):
        await site.send(essential=True)
    site.limiter.away, site.limiter.hangs = False, True
    cut_off = asyncio.create_task(site.send())
    await site.limiter.hanging.wait()

    # When the job that tells it is cut off
    cut_off.cancel()
    await asyncio.wait([cut_off])
    site.limiter.hangs = False
    await site.send()

    # Then the next one tells it
    assert await site.used() == 5


async def test_what_cannot_be_told_yet_stays_owed(site: Site) -> None:
    # Given a limiter that answers, and is away again before it hears what is owed
    site.limiter.away = True
    await site.send(essential=True)
    site.limiter.away = False
    gates, charge = site.gates, site.limiter.charge

    async def refuse(*_: object, **__: object) -> None:
        raise LimiterUnreachable(timedelta(0))

    site.limiter.charge = refuse  # type: ignore[method-assign]
    await site.send()
    assert gates._owed.total() == 1

    # When it can be told
    site.limiter.charge = charge  # type: ignore[method-assign]
    await site.send()

    # Then it is
    assert (gates._owed.total(), await site.used()) == (0, 3)


@pytest.mark.parametrize(
    ("retry_after_s", "waits_s"), [(None, 60), (5.0, 5), (-3.0, 0), (1e300, 86_400)]
)
async def test_without_a_budget_a_429_waits_as_told_within_reason(
    site: Site, retry_after_s: float | None, waits_s: float
) -> None:
    async with site.gate(None).request() as passage:
        await passage.observe_counts({"15min": 5})
        error = await passage.close_budget(retry_after_s)

    assert error.after == timedelta(seconds=waits_s)
    assert passage.remaining is None


# ---- a limiter that has lost its counts --------------------------------------------------------


@pytest.mark.parametrize("lane", Lane)
async def test_the_wait_for_a_window_whose_use_was_lost_does_not_defer_the_job(
    site: Site, lane: Lane
) -> None:
    # Given a chunk with requests of a provider that allows so many in a minute
    budget = Budget("minutes", [Limit(10, per="min", rolling=True)], pace_s_min=0.1)
    gate = site.gate(budget, lane)
    async with gate.request():
        pass

    # When the limiter loses its counts
    site.limiter.forget()
    lost_at = site.clock.now()
    async with gate.request():
        pass

    # Then the next request was waited for within the chunk, for longer than other waits
    assert site.clock.now() - lost_at == timedelta(seconds=62)


async def test_who_waits_in_the_queue_meanwhile_is_not_deferred_either(site: Site) -> None:
    # Given three backfills of one connection, when the limiter has lost its counts
    budget = Budget("minutes", [Limit(10, per="min", rolling=True)], pace_s_min=0.1)
    site.limiter.forget()

    async def send() -> None:
        async with site.gate(budget, Lane.COLD).request():
            pass

    # When all of them ask at once
    asked = [asyncio.create_task(send()) for _ in range(3)]
    await asyncio.gather(*asked)

    # Then all were granted, the last ones although they were in the queue for so long
    [window] = (await site.limiter.use(budget, connection_id=None)).windows
    assert window.used == 3


# ---- a grant that is too old -------------------------------------------------------------------


async def test_a_grant_of_a_window_that_is_over_is_spent_and_not_used(site: Site) -> None:
    # Given a process that stalls after its grant, until the next quarter has begun
    site.limiter.stalls_s = [601.0]

    # When it goes on
    async with site.gate().request() as passage:
        # Then it has got another grant, of the window in which it sends
        assert len(site.limiter.asked) == 2
        ends = QUARTER + timedelta(minutes=15) - site.clock.now()
        assert passage.send_within_s == ends.total_seconds() - 3
    [window, day] = (await site.limiter.use(BUDGET, connection_id=None)).windows
    assert (window.used, day.used) == (2, 2)


async def test_a_grant_that_stays_in_its_window_may_be_used_late(site: Site) -> None:
    site.limiter.stalls_s = [300.0]

    async with site.gate().request() as passage:
        # Until a second before the quarter ends, which is half of the guard band.
        assert passage.send_within_s == 299.0

    assert len(site.limiter.asked) == 1


@pytest.mark.parametrize(
    "budget",
    [
        Budget("rolling", [Limit(5, per="min", rolling=True)], paced=False),
        Budget("slots", [Limit(5, per="day")], slots=2, slot_lease_s=60, paced=False),
    ],
    ids=lambda budget: budget.source,
)
async def test_a_grant_is_good_for_half_of_a_rolling_window_or_of_the_lease_of_its_slot(
    site: Site, budget: Budget
) -> None:
    site.limiter.stalls_s = [31.0]

    async with site.gate(budget).request() as passage:
        assert passage.send_within_s == 30.0

    assert len(site.limiter.asked) == 2


async def test_a_limiter_whose_grants_are_always_too_old_counts_as_unreachable(
    site: Site,
) -> None:
    site.limiter.stalls_s = [2000.0] * 9

    with pytest.raises(LimiterUnreachable, match="too late"):
        await site.send()


async def test_only_limits_that_count_the_request_end_the_time_to_send_it(site: Site) -> None:
    budget = Budget("uploads", [Limit(5, per="min", only="upload")], paced=False)

    async with site.gate(budget).request(kind="read") as passage:
        assert passage.send_within_s == float("inf")
    async with site.gate(None).request() as unlimited:
        assert unlimited.send_within_s == float("inf")


async def test_a_request_that_ends_late_is_counted_where_it_may_have_arrived(site: Site) -> None:
    # Given a request of a budget without slots, whose answer takes until the next quarter
    async with site.gate().request():
        site.clock.advance(610)

    # Then it counts in both
    [window, day] = (await site.limiter.use(BUDGET, connection_id=None)).windows
    assert (window.used, day.used) == (1, 1)
