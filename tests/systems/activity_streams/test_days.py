"""Virtual days of activity streams against the Strava sandbox: its own count is the verdict.

Everything that runs is the system's own: its syncs, its events, Strava's connector and budget.
"""

import math

import pytest
from msgspec.structs import replace

from bench.activity_streams.days import LIVE_READS, READS_15MIN, RESERVE, Scenario, play
from headgate.loops.liveness import LivenessWatch
from headgate.model.job import Lane
from headgate.store.sql.items.store import SqlItems

#: What the streams design itself plans for each of 700 activities.
SEED_PLAN_S = 3.5 * 3600 / 700
#: The first page of the list brings 200; each that follows begins with the last activity of the
#: page before it, so it brings 199 at most; and one more finds that nothing is older.
FIRST_PAGE, NEXT_PAGE = 200, 199
#: What backfill may spend of a window; and what it spends of one that is its own from edge to edge.
#: A reserve that shrinks keeps a burst of live work, 4 of 100, until the last seconds.
READS_MAX = {False: READS_15MIN - RESERVE, True: READS_15MIN}
UTILISATION = {False: 0.80, True: 0.96}
#: Details, laps and streams of a new activity are three requests of 0.2 s, one after another; once
#: in six hours the access token must be renewed first, which is a fourth.
LIVE_S_MAX = 0.9


@pytest.mark.parametrize(
    ("activities", "decay"),
    [
        (210, False),
        pytest.param(700, False, marks=pytest.mark.thorough),
        pytest.param(700, True, marks=pytest.mark.thorough),
    ],
)
def test_a_history_comes_within_five_percent_of_the_least_time(
    activities: int, decay: bool
) -> None:
    # When a history is fetched while new ones come in
    live_a_day = 40 * 700 / activities
    outcome = play(1, Scenario(activities=activities, live_a_day=live_a_day, decay=decay))

    # Then everything has ended, with no request that was not needed, and none was refused
    new = len(outcome.live_s)
    assert outcome.states.keys() == {"success", "unavailable"}
    assert sum(outcome.states.values()) == activities + new
    assert outcome.stream_requests == outcome.states["success"]
    pages = 2 + math.ceil((activities - FIRST_PAGE) / NEXT_PAGE)
    assert outcome.reads == pages + outcome.stream_requests + 2 * new
    assert (outcome.overshoot, outcome.answers_429, outcome.retries) == (0, 0, 0)
    # And it took hardly longer than the limits demand, and far less than was planned
    reads_max = READS_MAX[decay]
    least_s = outcome.least_s(reads_max)
    assert outcome.backfill_s is not None
    assert least_s <= outcome.backfill_s <= 1.05 * least_s < SEED_PLAN_S * activities
    assert outcome.utilisation >= UTILISATION[decay]
    # And what is kept for live work was left to it, and was enough for it
    assert max(window.used for window in outcome.windows) <= reads_max + LIVE_READS * new
    assert outcome.missing == 0
    assert new > 2 and max(outcome.live_s) < LIVE_S_MAX


#: Windows that open every 15 minutes, a day's budget that is spent before the day is over, and
#: midnight, when the next one begins.
DAYS = 3
BUSY = Scenario(activities=5000, live_a_day=60, days=DAYS, decay=True)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_days_of_live_work_and_backfill_stay_within_every_limit() -> None:
    outcome = play(1, BUSY)

    assert (outcome.overshoot, outcome.answers_429, outcome.retries) == (0, 0, 0)
    # Live work never waits.
    assert len(outcome.live_s) > 34 * DAYS
    assert (outcome.missing, max(outcome.live_s) < LIVE_S_MAX) == (0, True)
    # Nearly all of what may be read is: of a day's 1000, a burst of live work, 40, is kept until
    # the last seconds.
    assert outcome.reads >= DAYS * 960


@pytest.mark.timeout(300)
@pytest.mark.fault(19)
@pytest.mark.parametrize(
    ("seed", "scenario"),
    [
        # Half an hour, full of trouble.
        (4, Scenario(activities=170, live_a_day=400, forgets_a_day=1100, crashes_a_day=2400)),
        pytest.param(
            2,
            replace(BUSY, forgets_a_day=24 / DAYS, crashes_a_day=60 / DAYS),
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["half an hour", "days"],
)
def test_a_forgetful_limiter_crashes_and_skewed_clocks_stay_within_the_slack(
    seed: int, scenario: Scenario
) -> None:
    outcome = play(seed, replace(scenario, decay=True, skew_s=30))

    # The slack that is stated: one request, to find out, each time that everything is forgotten.
    assert outcome.overshoot <= outcome.forgotten
    assert outcome.forgotten > 10 and outcome.crashes > 30
    # And nothing new is lost.
    assert outcome.missing == 0
    assert len(outcome.live_s) > 34 * (scenario.days or 0.2)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [5, pytest.param(2, marks=pytest.mark.thorough)])
def test_with_workers_that_are_killed_nothing_is_lost_or_too_much(seed: int) -> None:
    # When workers are killed all the time, and most of all while they work on what is new
    outcome = play(
        seed, Scenario(activities=50, live_a_day=700, crashes_a_day=900, crashes_live=0.7)
    )

    # Then everything has ended all the same, and nobody's death was taken for a failure
    assert outcome.crashes >= 10 and outcome.items_crashed > 10
    assert outcome.states.keys() == {"success", "unavailable"}
    assert sum(outcome.states.values()) == 50 + len(outcome.live_s)
    assert (outcome.overshoot, outcome.answers_429, outcome.retries) == (0, 0, 0)
    # And what was new was here as soon as a dead worker can be told from a slow one
    assert outcome.missing == 0
    assert len(outcome.live_s) > 2
    assert max(outcome.live_s) < 300
    # What a dead worker had asked for is asked for again, and nothing else is.
    again = outcome.stream_requests - outcome.states["success"]
    assert 0 <= again <= outcome.crashes


LIVE_ALONE = Scenario(activities=0, days=0.03, live_a_day=700, crashes_a_day=120, crashes_live=0.7)


@pytest.mark.timeout(300)
def test_with_live_work_alone_and_workers_that_are_killed_no_event_is_lost() -> None:
    outcome = play(5, LIVE_ALONE)

    # There is no backfill to find what live work has left behind.
    assert outcome.crashes > 20
    assert (outcome.missing, outcome.states) == (0, {"success": len(outcome.live_s)})
    assert len(outcome.live_s) > 10
    assert max(outcome.live_s) < 600
    assert (outcome.overshoot, outcome.answers_429, outcome.retries) == (0, 0, 0)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_without_waiting_for_others_claims_some_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given jobs that wait for what is due, but not for what another worker has
    async def blind(
        self: SqlItems, collection: str, connection_id: str, *, lane: Lane | None = None
    ) -> float | None:
        found = await self.list_items(collection, limit=10_000)
        waiting = [
            each.next_attempt_at
            for each in found
            if each.next_attempt_at is not None and lane in (None, each.lane)
        ]
        now = self.database._time._clock.now()
        return max(0.0, (min(waiting) - now).total_seconds()) if waiting else None

    async def look_at_nobody(self: LivenessWatch) -> None:
        return None

    monkeypatch.setattr(SqlItems, "next_due_s", blind)
    # Leases alone tell that a worker is gone: who is found dead at once has his items back before
    # anybody could leave them behind.
    monkeypatch.setattr(LivenessWatch, "run_once", look_at_nobody)

    # Then what a dead worker held is left behind, by this very run
    assert play(5, LIVE_ALONE).missing


def test_the_same_seed_gives_the_same_days() -> None:
    scenario = Scenario(activities=15, days=0.01, crashes_a_day=800, forgets_a_day=400)

    assert play(7, scenario) == play(7, scenario)
