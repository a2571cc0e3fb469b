"""Every limiter gives the answers of the pure policy, and none lets a provider be overrun.

`policy/spending.py` decides in Python, `limits/spend.lua` inside Redis, and in SQL there is a
database between: the same requests at the same times must get the same answers, and leave the same
ledgers.
"""

import itertools
from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest
from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.limits.memory import MemoryLimiter, SharedLedgers
from headgate.model.budget import (
    Answer,
    Budget,
    BudgetRequest,
    Exhausted,
    Granted,
    Limit,
    RefusalReason,
    Scope,
)
from headgate.model.job import Lane
from headgate.ports.limiter import Limiter
from headgate_sandbox.kit.meter import Meter
from headgate_sandbox.kit.windows import Window
from tests.limiters import Bench, RequestStarted, acquire, alike

#: Moto is slow, and what is decided here is decided by us; in memory it is the policy itself.
BENCHES = ["sqlite", "postgres", "ministack", "redis"]
pytestmark = pytest.mark.slow

BUDGETS = [
    Budget("strava", [Limit(10, per="15min", reserve=3), Limit(60, per="day")]),
    Budget(
        "decays",
        [Limit(10, per="15min", reserve=3), Limit(60, per="day", reserve=5)],
        reserve_decay=True,
    ),
    Budget(
        "mixed",
        [
            Limit(6, per="min", scope=Scope.CONNECTION),
            Limit(20, per="5min", rolling=True, reserve=2),
            Limit(15, per="hour", only="upload"),
        ],
        slots=2,
        slot_lease_s=20,
    ),
    Budget("rolling", [Limit(5, per="30s", rolling=True)], paced=False, guard_s=1),
    Budget("slots", [Limit(30, per="hour")], slots=1, slots_scope=Scope.CONNECTION, slot_lease_s=7),
]
#: More where another program decides. In a database it is the policy itself: one budget, which has
#: scopes, kinds, slots and a rolling window, is enough for most changes.
STEPS = {"sqlite": 120, "postgres": 120, "ministack": 90, "redis": 240}
RUNS = [
    pytest.param(
        bench,
        budget,
        id=f"{bench}-{budget.source}",
        marks=[] if bench == "redis" or budget.source == "mixed" else [pytest.mark.thorough],
    )
    for bench, budget in itertools.product(BENCHES, BUDGETS)
]
CONNECTIONS = ("a", "b")


class Pair:
    """One random run on the policy and on a limiter, compared step by step."""

    def __init__(self, limiter: Limiter, clock: ManualClock, budget: Budget, seed: int) -> None:
        #: The policy, on ledgers that are nothing but values.
        self.shelf = SharedLedgers()
        self.pure = MemoryLimiter(clock, shelf=self.shelf, memory=RequestStarted())
        self.seen: Counter[str] = Counter()
        self._limiter = limiter
        self._budget = budget
        self._rng = Random(seed)
        self._grants: list[tuple[BudgetRequest, Granted]] = []

    async def step(self, number: int) -> None:
        rng = self._rng
        ask = BudgetRequest(
            lane=rng.choice(list(Lane)),
            connection_id=rng.choice(CONNECTIONS),
            kind=rng.choice(["read", "read", "upload"]),
            retry=rng.random() < 0.2,
        )
        draw = rng.random()
        if draw < 0.7 or not self._grants:
            await self._take(ask, f"grant_{number}")
        elif draw < 0.82:
            await self._release(*self._grants.pop(rng.randrange(len(self._grants))))
        elif draw < 0.95:
            await self._observe(*rng.choice(self._grants[-3:]))
        elif draw < 0.97:
            named = rng.choice([None, *(limit.name for limit in self._budget.limits)])
            await self._refused(ask, rng.choice([None, 5.0, 100.0]), named)
        else:
            for each in (self.pure, self._limiter):
                await each.charge(self._budget, ask, times=2)

    async def compare(self) -> None:
        for connection_id in (None, *CONNECTIONS):
            mine, theirs = [
                await each.use(self._budget, connection_id=connection_id)
                for each in (self.pure, self._limiter)
            ]
            # The policy alone does not remember 429s of ledgers that were lost.
            assert replace(theirs, answers_429_24h=mine.answers_429_24h) == mine

    async def _take(self, ask: BudgetRequest, grant_id: str) -> None:
        mine = await self.pure.acquire(self._budget, ask, grant_id=grant_id)
        theirs = await self._limiter.acquire(self._budget, ask, grant_id=grant_id)
        assert theirs == mine
        self.seen[_kind(mine)] += 1
        if isinstance(mine, Granted):
            self._grants.append((ask, mine))

    async def _release(self, ask: BudgetRequest, grant: Granted) -> None:
        for each in (self.pure, self._limiter):
            await each.release(self._budget, ask, grant)

    async def _observe(self, ask: BudgetRequest, grant: Granted) -> None:
        limits = [limit for limit in self._budget.limits if self._rng.random() < 0.5]
        counts = {limit.name: self._rng.randrange(limit.amount) for limit in limits}
        for each in (self.pure, self._limiter):
            await each.observe(self._budget, ask, grant, counts)

    async def _refused(
        self, ask: BudgetRequest, retry_after_s: float | None, limit: str | None
    ) -> None:
        mine, theirs = [
            await each.close_budget(self._budget, ask, retry_after_s=retry_after_s, limit=limit)
            for each in (self.pure, self._limiter)
        ]
        assert theirs == mine


def _kind(answer: Answer) -> str:
    return answer.reason.value if isinstance(answer, Exhausted) else "granted"


@pytest.mark.parametrize(("bench", "budget"), RUNS, indirect=["bench"])
async def test_the_same_requests_get_the_same_answers_and_leave_the_same_ledgers(
    limiter: Limiter, bench: Bench, clock: ManualClock, budget: Budget
) -> None:
    # Given a limiter and the policy, and the same requests at the same times to both, over midnight
    clock.advance(11 * 3600 + 35 * 60)
    pair = Pair(limiter, clock, budget, seed=len(budget.source))
    moves = Random(99)

    # When they are asked, step by step
    for number in range(STEPS[bench.kind]):
        await pair.step(number)
        clock.advance(moves.choice([0, 0, 0.01, 0.5, 1, 3, 10, 40, 100]))

        # Then they always tell the same
        if number % 10 == 0:
            await pair.compare()

    # And keep the same, and the run has met what this budget can say
    assert alike(await bench.ledgers()) == alike(pair.shelf.ledgers)
    assert pair.seen["granted"] > 10
    assert pair.seen["closed"] > 0
    assert pair.seen.keys() >= EXPECTED[budget.source]


#: What a run of each budget must have met, or it proves little.
EXPECTED = {
    "strava": {RefusalReason.SPENT, RefusalReason.RESERVE, RefusalReason.PACE},
    "decays": {RefusalReason.SPENT, RefusalReason.RESERVE, RefusalReason.PACE},
    "mixed": {RefusalReason.SPENT, RefusalReason.PACE, RefusalReason.SLOTS},
    "rolling": {RefusalReason.SPENT},
    "slots": {RefusalReason.SLOTS, RefusalReason.PACE},
}


@pytest.mark.parametrize("bench", ["redis"], indirect=True)
@pytest.mark.parametrize("budget", BUDGETS, ids=[budget.source for budget in BUDGETS])
async def test_what_forgets_gives_the_same_answers_after_it_too(
    limiter: Limiter, bench: Bench, clock: ManualClock, budget: Budget
) -> None:
    # Given a limiter that may lose everything, and the policy, which is told that it did
    assert bench.forget is not None
    pair = Pair(limiter, clock, budget, seed=len(budget.source) + 1)
    moves = Random(98)

    # When both lose everything again and again
    for number in range(STEPS["redis"]):
        if number % 60 == 30:
            bench.forget()
            pair.pure.forget()
        if number % 4 == 0 or number % 60 > 28:
            await pair.compare()
        await pair.step(number)
        clock.advance(moves.choice([0, 0, 0.01, 0.5, 1, 3, 10, 40]))

    # Then they have told the same all along, also while what was used was not known
    assert alike(await bench.ledgers()) == alike(pair.shelf.ledgers)
    assert pair.seen["granted"] > 5
    assert ("unknown" in pair.seen) == any(limit.seconds <= 60 for limit in budget.limits)


# ---- a provider that counts for itself ---------------------------------------------------------


class Apart:
    """A provider's clock, so many seconds from ours."""

    def __init__(self, ours: ManualClock, by_s: float) -> None:
        self._ours = ours
        self._by = timedelta(seconds=by_s)
        self.later = timedelta(0)

    def now(self) -> datetime:
        return self._ours.now() + self._by + self.later

    def monotonic(self) -> float:
        return self.now().timestamp()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("a meter does not sleep")


@pytest.mark.parametrize(
    ("bench", "apart_s"),
    # The windows are the policy's, and the guard band is what the clocks may differ by.
    [
        *itertools.product(["memory", "redis"], [-1.5, 0.0, 1.5]),
        ("sqlite", 1.5),
        pytest.param("postgres", -1.5, marks=pytest.mark.thorough),
        pytest.param("ministack", 1.5, marks=pytest.mark.thorough),
    ],
    indirect=["bench"],
)
async def test_a_provider_that_counts_for_itself_is_never_overrun(
    limiter: Limiter, bench: Bench, clock: ManualClock, apart_s: float
) -> None:
    # Given a provider with three windows, its clock up to the guard band from ours
    budget = Budget(
        "counts",
        [
            Limit(12, per="30s", reserve=3),
            Limit(20, per="min", rolling=True),
            Limit(90, per="5min"),
        ],
        pace_s_min=0.05,
    )
    theirs = Apart(clock, apart_s)
    meter = Meter(
        theirs,
        [
            Window(name="30s", limit=12, seconds=30),
            Window(name="min", limit=20, seconds=60, rolling=True),
            Window(name="5min", limit=90, seconds=300),
        ],
    )
    both = [limiter, await bench.another()]
    rng = Random(7)

    # When two processes send whatever is granted, each request up to half a second on its way
    sent = 0
    for _ in range(500):
        wanted = BudgetRequest(lane=rng.choice(list(Lane)), connection_id="a")
        which = rng.choice(both)
        answer = await acquire(which, budget, wanted)
        if isinstance(answer, Granted):
            theirs.later = timedelta(seconds=rng.random() / 2)
            reading = meter.arrive()
            theirs.later = timedelta(0)
            sent += 1
            if rng.random() < 0.3:
                await which.observe(budget, wanted, answer, reading.used)
        clock.advance(rng.choice([0, 0.02, 0.1, 0.4, 2]))

    # Then it never had to refuse one, and most of what it allows was used
    assert meter.overshoot() == 0
    peaks = {name: max(each.peak for each in meter.tallies(name)) for name in meter.windows}
    assert peaks["30s"] >= 11
    assert peaks["min"] >= 18
    assert sent > 70
