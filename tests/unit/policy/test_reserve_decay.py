"""What a shrinking reserve gains, in figures, and that live work loses nothing by it.

Half a day of Strava's read limit on the pure policy: live requests come at random, and one backfill
asks whenever it may. Run with `-s` to see the figures.
"""

from random import Random

import msgspec
import pytest

from headgate.flow.budget.gate import WAIT_S_MAX
from headgate.model.budget import Budget, Exhausted, Granted, Limit, Scope, to_ms
from headgate.model.job import Lane
from headgate.policy import spending
from tests.limiters import COLD, HOT, new_ledgers
from tests.unit.values import NOW

pytestmark = pytest.mark.slow

WINDOW_MS = 900_000
WINDOWS = 48
AMOUNT = 100

BEGIN = to_ms(NOW)
RARER = [(0.0001, 1), (2, 1), (3, 3), (10, 1), (25, 1)]


class Outcome(msgspec.Struct):
    """How a day went."""

    live: int = 0
    #: Live requests that had to wait longer than the gate waits for them: their jobs are put off.
    put_off: int = 0
    #: Live requests that had to wait at all.
    waited: int = 0
    backfilled: int = 0

    @property
    def used_share(self) -> float:
        """What was used of what is allowed."""
        return (self.live - self.put_off + self.backfilled) / (WINDOWS * AMOUNT)


def live_times(a_window: float, burst: int, seed: int) -> list[int]:
    """When live requests come: bursts at random, so many requests in each."""
    rng, at = Random(seed), float(BEGIN)
    times: list[int] = []
    while True:
        at += rng.expovariate(a_window / burst) * WINDOW_MS
        if at >= BEGIN + WINDOWS * WINDOW_MS:
            return times
        times += [round(at)] * burst


def play(times: list[int], *, decay: bool) -> Outcome:
    """One day: live requests at these times, and backfill whenever it may."""
    budget = Budget("strava", [Limit(AMOUNT, per="15min", reserve=20)], reserve_decay=decay)
    ledgers, outcome = new_ledgers(budget), Outcome()
    cold_at = BEGIN
    for at in [*times, BEGIN + WINDOWS * WINDOW_MS]:
        while cold_at < at:
            answer = spending.take(budget, ledgers, COLD, cold_at, "cold")
            if isinstance(answer, Granted):
                outcome.backfilled += 1
                cold_at = max(cold_at + 1, ledgers[Scope.APP].next_cold)
            else:
                assert isinstance(answer, Exhausted)
                cold_at = to_ms(answer.until)
        if at < BEGIN + WINDOWS * WINDOW_MS:
            answer = spending.take(budget, ledgers, HOT, at, "hot")
            outcome.live += 1
            if isinstance(answer, Exhausted):
                outcome.waited += 1
                outcome.put_off += answer.wait_s > WAIT_S_MAX[Lane.HOT]
    return outcome


@pytest.mark.parametrize(
    ("a_window", "burst"),
    [
        (12, 3),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in RARER),
    ],
)
def test_a_shrinking_reserve_uses_more_and_live_work_loses_nothing(
    a_window: float, burst: int
) -> None:
    # Given the same live requests, when the reserve is fixed, and when it shrinks
    times = live_times(a_window, burst, seed=0)
    fixed, shrinking = play(times, decay=False), play(times, decay=True)
    print(f"\n{a_window:g} live requests a window, {burst} at a time:")
    for name, each in (("fixed", fixed), ("shrinking", shrinking)):
        print(
            f"  {name:9} used {each.used_share:6.1%}   live {each.live}"
            f"   put off {each.put_off}   waited {each.waited}"
        )

    # Then more of what is allowed is used, and no more live work is put off
    assert shrinking.used_share > fixed.used_share
    assert shrinking.put_off <= fixed.put_off
    assert shrinking.live == fixed.live
