"""Virtual days against the Strava sandbox: its own count is the verdict."""

import pytest

from headgate.simulation.strava_days import Plan, play
from tests import profiles

WINDOW_S = 900.0
#: Nine windows of 80 where 20 are always kept back; seven of 100 where the reserve shrinks.
FLOOR_S = {False: 9 * WINDOW_S, True: 7 * WINDOW_S}
#: What the streams design itself plans for 700 activities.
SEED_PLAN_S = 3.5 * 3600


@pytest.mark.parametrize("decay", [False, True])
def test_700_activities_come_within_five_percent_of_the_least_time(decay: bool) -> None:
    # When a history of 700 activities is fetched while new ones come in
    outcome = play(1, Plan(activities=700, live_a_day=40, decay=decay))

    # Then it takes hardly longer than the limits demand, and far less than was planned
    assert outcome.backfill_s is not None
    assert outcome.backfill_s <= 1.05 * FLOOR_S[decay]
    assert outcome.backfill_s < SEED_PLAN_S
    # And nothing was ever over a limit, refused by Strava, or in the way of live work
    assert (outcome.overshoot, outcome.answers_429, outcome.live_deferred) == (0, 0, 0)
    assert outcome.fetched >= 700


#: With `HYPOTHESIS_PROFILE=ci` three days. By default a day and three hours of the next, which is
#: all there is to see: windows that open every 15 minutes, a day's budget that is spent before the
#: day is over, and midnight, when the next one begins. More days repeat that.
DAYS = 3 if profiles.THOROUGH else 1.125
#: What may be read in them, nearly all: a thousand a day, or a thousand and three hours' windows.
READS_MIN = 2900 if profiles.THOROUGH else 1700


@pytest.mark.timeout(300)
def test_days_of_live_work_and_backfill_stay_within_every_limit() -> None:
    outcome = play(1, Plan(activities=5000, live_a_day=60, days=DAYS, decay=True))

    assert (outcome.overshoot, outcome.answers_429) == (0, 0)
    assert outcome.live_jobs > 34 * DAYS
    assert (outcome.live_done, outcome.live_deferred) == (outcome.live_jobs, 0)
    # Nearly all of what may be read is.
    assert sum(window.used for window in outcome.windows) > READS_MIN


@pytest.mark.timeout(300)
def test_a_forgetful_limiter_crashes_and_skewed_clocks_stay_within_the_slack() -> None:
    # The fewer days, the more trouble in each: as often in all.
    outcome = play(
        2,
        Plan(
            activities=5000,
            live_a_day=60,
            days=DAYS,
            decay=True,
            forgets_a_day=24 / DAYS,
            crashes_a_day=60 / DAYS,
            skew_s=30,
        ),
    )

    # The slack that is stated: one request, to find out, each time that everything is forgotten.
    assert outcome.overshoot <= outcome.forgotten
    assert outcome.forgotten > 10 and outcome.crashes > 30


def test_the_same_seed_gives_the_same_days() -> None:
    plan = Plan(activities=50, live_a_day=40, days=0.1, crashes_a_day=100, forgets_a_day=50)

    assert play(7, plan) == play(7, plan)
