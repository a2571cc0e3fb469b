"""The plan of a tick: who starts when."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.candidate import Candidate
from headgate.model.schedule import SkipReason
from headgate.model.user import Frequency
from headgate.policy.allowance import Allowance
from headgate.policy.ticks import LATE_AFTER, SAME_TIME_WINDOW
from tests.unit.policy.candidates import DAY, TICK, candidate, crowd, minutes, nightly, plan

HOUR = timedelta(hours=1)
#: As many requests as users fit into a day, and not one more.
FIVE_HUNDRED_AN_HOUR = Allowance(windows=((500, 3600),))

candidates_lists = st.lists(
    st.builds(
        lambda number, **fields: candidate(number, **fields),
        st.integers(1, 10_000),
        last_login_at=st.sampled_from([None, TICK - DAY, TICK - 40 * DAY]),
        time=st.sampled_from([None, None, "07:30", "00:00", "02:30"]),
        zone=st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia"]),
        frequency=st.sampled_from(Frequency),
        last_tick=st.sampled_from([None, TICK - DAY, TICK - 8 * DAY]),
    ),
    max_size=60,
    unique_by=lambda each: each.connection_id,
)
allowances = st.sampled_from(
    [
        Allowance(),
        FIVE_HUNDRED_AN_HOUR,
        Allowance(windows=((20, 86_400),)),
        Allowance(windows=((3, 3600), (100, 86_400))),
        Allowance(pace_s=600),
    ]
)


def test_five_users_start_two_minutes_apart() -> None:
    planned = plan(crowd(5))

    assert minutes(planned) == [0, 2, 4, 6, 8]
    assert [start.candidate.user_id for start in planned.starts] == [
        f"user_{number}" for number in range(1, 6)
    ]
    assert not planned.dynamic
    assert (planned.active, planned.requests_needed, planned.requests_allowed) == (5, 5, None)


@given(candidates_lists, allowances, st.sampled_from(["0s", "2m", "1h"]), st.booleans())
def test_everybody_is_planned_once_inside_the_period_or_skipped_with_a_reason(
    candidates: list[Candidate], allowance: Allowance, stagger: str, asked: bool
) -> None:
    planned = plan(candidates, nightly(stagger=stagger), allowance, asked=asked)

    starting = [start.candidate.connection_id for start in planned.starts]
    skipped = [skip.candidate.connection_id for skip in planned.skips]
    assert sorted(starting + skipped) == sorted(each.connection_id for each in candidates)
    assert all(TICK <= start.at < TICK + DAY for start in planned.starts)
    assert minutes(planned) == sorted(minutes(planned))
    assert planned.active == len(starting) + sum(
        skip.reason is SkipReason.NO_BUDGET for skip in planned.skips
    )
    assert sum(planned.skipped_by_reason().values()) == len(skipped)


def test_720_users_are_as_many_as_two_minutes_leave_time_for() -> None:
    assert not plan(crowd(720)).dynamic
    assert plan(crowd(721)).dynamic


def test_ten_thousand_users_fit_into_a_day_and_into_the_budget() -> None:
    planned = plan(crowd(10_000), allowance=FIVE_HUNDRED_AN_HOUR)

    assert len(planned.starts) == 10_000 and not planned.skips
    assert planned.dynamic
    starts = minutes(planned)
    assert starts[-1] < 24 * 60
    for hour in range(24):
        assert sum(60 * hour <= minute < 60 * (hour + 1) for minute in starts) <= 500
    assert (planned.requests_needed, planned.requests_allowed) == (10_000, 12_000)


def test_the_same_user_is_not_always_last_and_the_same_tick_always_planned_alike() -> None:
    users = crowd(1000)
    last = {
        plan(users, tick=TICK + n * DAY, now=TICK + n * DAY, ends=TICK + (n + 1) * DAY)
        .starts[-1]
        .candidate.user_id
        for n in range(20)
    }

    assert len(last) > 15
    assert plan(users) == plan(crowd(1000))


def test_users_for_whom_the_budget_is_not_enough_are_named_and_go_first_next_time() -> None:
    thousand_a_day = Allowance(windows=((1000, 86_400),))
    first = plan(crowd(1500), allowance=thousand_a_day)

    assert len(first.starts) == 1000
    assert first.skipped_by_reason() == {SkipReason.NO_BUDGET: 500}
    assert (first.requests_needed, first.requests_allowed) == (1500, 1000)

    served = {start.candidate.connection_id for start in first.starts}
    again = [
        candidate(n, last_tick=TICK if candidate(n).connection_id in served else None)
        for n in range(1, 1501)
    ]
    tomorrow = TICK + DAY
    second = plan(
        again, nightly(), thousand_a_day, tick=tomorrow, now=tomorrow, ends=TICK + 2 * DAY
    )
    left_out = {skip.candidate.connection_id for skip in first.skips}
    assert left_out <= {start.candidate.connection_id for start in second.starts}


def test_an_hourly_tick_leaves_the_next_ones_their_share_of_the_day() -> None:
    hourly = nightly(cron="@hourly")
    planned = plan(crowd(100), hourly, Allowance(windows=((1000, 86_400),)), ends=TICK + HOUR)

    assert len(planned.starts) == 41
    # Somebody who asks for a run now gets what there is.
    now = plan(
        crowd(100), hourly, Allowance(windows=((1000, 86_400),)), ends=TICK + HOUR, asked=True
    )
    assert len(now.starts) == 100


def test_somebody_always_has_a_turn() -> None:
    planned = plan(crowd(3), nightly(requests=50), Allowance(windows=((10, 86_400),)))

    assert len(planned.starts) == 1
    hourly = plan(crowd(3), nightly(requests=50), Allowance(windows=((10, 3600),)))
    assert hourly.starts


def test_a_spread_is_the_time_for_all_users() -> None:
    four_hours = nightly(spread="4h")

    assert minutes(plan(crowd(3), four_hours)) == [0, 2, 4]
    planned = plan(crowd(480), four_hours)
    assert planned.dynamic
    assert minutes(planned)[:2] == [0, 0.5]
    assert minutes(planned)[-1] == 239.5
    assert minutes(plan(crowd(3), allowance=Allowance(windows=((10, 3600),)))) == [0, 6, 12]
    # Where the limits leave no time for all of them, the others are named.
    tight = plan(crowd(480), four_hours, Allowance(windows=((60, 3600),)))
    assert len(tight.starts) == 240
    assert minutes(tight)[-1] == 239


def test_a_spread_never_reaches_into_the_next_tick() -> None:
    planned = plan(crowd(60), nightly(spread="30d", stagger="10m"), ends=TICK + HOUR)

    assert minutes(planned)[-1] == 59


@pytest.mark.fault(22)
def test_a_late_tick_counts_from_its_firing_so_that_no_herd_starts() -> None:
    assert minutes(plan(crowd(3), now=TICK + LATE_AFTER)) == [0, 2, 4]
    assert minutes(plan(crowd(3), now=TICK + 2 * HOUR)) == [120, 122, 124]


# ---- wishes of users ---------------------------------------------------------------------------


def at(planned: Any) -> dict[str, str]:
    return {start.candidate.user_id: start.at.isoformat()[:16] for start in planned.starts}


def test_a_user_starts_at_the_time_of_the_day_that_they_want() -> None:
    users = [
        candidate(1),
        candidate(2, time="07:30", zone="Europe/Berlin"),
        candidate(3),
        candidate(4, time="01:59"),
        candidate(5, time="02:00"),
    ]

    assert at(plan(users)) == {
        "user_1": "2026-01-05T02:00",
        "user_3": "2026-01-05T02:02",
        "user_5": "2026-01-05T02:00",
        "user_2": "2026-01-05T06:30",
        "user_4": "2026-01-06T01:59",
    }


def test_whoever_wants_the_same_time_starts_one_after_another() -> None:
    planned = plan(crowd(3, time="07:00"))
    assert minutes(planned) == [300, 302, 304]

    many = plan(crowd(600, time="07:00"))
    assert minutes(many)[-1] == pytest.approx(360 - 0.1)
    assert many.dynamic

    # Not within the hour that is usual, if the provider does not allow it.
    slow = plan(crowd(600, time="07:00"), allowance=Allowance(windows=((100, 3600),)))
    assert len(slow.starts) == 600
    assert minutes(slow)[-1] == pytest.approx(300 + 599 * 0.6)
    assert SAME_TIME_WINDOW < timedelta(minutes=359)


@pytest.mark.parametrize(
    ("midnight", "starts"),
    [
        ("2026-03-29T00:00+01:00", "2026-03-29T01:00+00:00"),
        ("2026-10-25T00:00+02:00", "2026-10-25T00:30+00:00"),
    ],
)
def test_a_time_that_the_clock_skips_is_when_it_is_set_and_a_repeated_one_is_the_first(
    midnight: str, starts: str
) -> None:
    tick = datetime.fromisoformat(midnight)
    users = [candidate(1, time="02:30", zone="Europe/Berlin", last_login_at=tick)]

    planned = plan(users, tick=tick, now=tick, ends=tick + DAY)
    assert [start.at for start in planned.starts] == [datetime.fromisoformat(starts)]


@pytest.mark.parametrize(
    ("first", "fields", "starts"),
    [
        # The period does not have it, or it passed before a late tick.
        ({}, {"schedule": nightly(cron="@hourly"), "ends": TICK + HOUR}, [0, 2]),
        ({}, {"now": TICK + 10 * HOUR}, [600, 602]),
        # Whoever asks for a run now waits for nobody's time.
        ({}, {"asked": True}, [0, 2]),
        # A zone that this machine does not know costs nobody the job.
        ({"zone": "Mars/Base"}, {}, [0, 2]),
    ],
)
def test_a_time_that_cannot_be_kept_is_no_wish(
    first: dict[str, Any], fields: dict[str, Any], starts: list[float]
) -> None:
    users = [candidate(1, time="07:30", **first), candidate(2)]

    assert minutes(plan(users, **fields)) == starts
