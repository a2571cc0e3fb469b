"""The rest of a job, played through the windows ahead."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.budget import Budget, BudgetUse, Limit, Scope, WindowUse
from headgate.policy.windows_ahead import STEPS_MAX, LimitsAhead, Needs, play_s

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def reads(count: float, seconds: float = 0.0) -> Needs:
    """So many reads for each unit, which take so long together."""
    return Needs(work_s={"strava": seconds}, requests={"strava": {"read": count}})


def played(
    units: float,
    needs: Needs,
    *limits: Limit,
    use: BudgetUse | None = None,
    others: tuple[float, ...] = (),
    weight: float = 1.0,
    live: float = 1.0,
    now: datetime = NOW,
    **options: Any,
) -> float:
    budget = Budget("strava", limits, **{"paced": False, "guard_s": 0.0, **options})
    ahead = LimitsAhead(
        budgets={"strava": budget}, uses={} if use is None else {"strava": use}, others=others
    )
    return play_s(units, needs, ahead, start_s=now.timestamp(), others=weight, live=live)


def window(limit: str, *, used: int, ends: timedelta, hot: int = 0, **more: Any) -> WindowUse:
    given: dict[str, Any] = {"scope": Scope.APP, "amount": 100, "remaining": 100 - used, **more}
    return WindowUse(
        limit=limit,
        used=used,
        reserved=0,
        resets_at=NOW + ends,
        hot=hot,
        cold=0,
        retries=0,
        theirs=None,
        **given,
    )


def use(*windows: WindowUse, closed: timedelta | None = None) -> BudgetUse:
    return BudgetUse(
        source="strava",
        connection_id=None,
        windows=windows,
        closed_until=None if closed is None else NOW + closed,
        next_cold_at=None,
        slots_used=0,
        slots=None,
        refused_24h={},
        answers_429_24h=0,
    )


QUARTER = timedelta(minutes=15)


def test_without_limits_it_takes_the_time_of_the_work() -> None:
    needs = Needs(work_s={"strava": 2.0, "here": 1.0}, requests={"strava": {"read": 4}}, own_s=0.5)

    assert played(10, needs) == pytest.approx(35)
    assert play_s(10, needs, LimitsAhead(budgets={}), start_s=0, others=1, live=1) == pytest.approx(
        35
    )
    assert played(0, needs) == 0


def test_a_day_s_limit_that_is_not_reached_costs_no_time() -> None:
    # The old forecast spread the 900 of 1,000 requests over the day.
    assert played(900, reads(1, 0.2), Limit(1000, per="day")) == pytest.approx(180)


def test_a_spent_window_is_waited_for() -> None:
    # 250 reads, 100 in a quarter of an hour: two whole waits, and the last 50.
    assert played(250, reads(1, 0.1), Limit(100, per="15min")) == pytest.approx(1805)
    # The reserve is for live work.
    limit = Limit(100, per="15min", reserve=20)
    assert played(160, reads(1, 0.1), limit) == pytest.approx(908)


def test_what_is_used_already_is_not_there() -> None:
    spent = use(window("15min", used=70, ends=QUARTER))
    limit = Limit(100, per="15min")

    assert played(30, reads(1, 0.1), limit, use=spent) == pytest.approx(3)
    assert played(40, reads(1, 0.1), limit, use=spent) == pytest.approx(901)
    # A window that has ended, or whose use nobody knows, tells nothing.
    for other in (
        window("15min", used=70, ends=timedelta(seconds=-1)),
        window("15min", used=70, ends=QUARTER, unknown=True),
    ):
        assert played(40, reads(1, 0.1), limit, use=use(other)) == pytest.approx(4)


def test_windows_that_pass_while_it_works_are_new() -> None:
    # A read every 20 minutes meets a new window each time.
    assert played(10, reads(1, 1200), Limit(1, per="15min")) == pytest.approx(12_000)


def test_a_closed_budget_is_waited_for() -> None:
    limit = Limit(100, per="15min")

    assert played(10, reads(1), limit, use=use(closed=timedelta(minutes=5))) == pytest.approx(300)


def test_the_shortest_limit_sets_the_pace() -> None:
    limits = (Limit(90, per="15min"), Limit(1000, per="day"))

    # One in ten seconds; the work of a second lies within.
    assert played(31, reads(1, 1), *limits, paced=True) == pytest.approx(301, rel=0.02)
    # Slower than the pace, only the work counts.
    assert played(20, reads(1, 30), *limits, paced=True) == pytest.approx(600)
    rolling = Limit(300, per="min", rolling=True)
    assert played(101, reads(1), rolling, paced=True) == pytest.approx(100)
    assert played(101, reads(1), rolling, paced=True, pace_s_min=0.2) == pytest.approx(20)


def test_requests_of_other_kinds_meet_other_limits() -> None:
    needs = Needs(work_s={"strava": 0.0}, requests={"strava": {"upload": 1}})

    assert played(200, needs, Limit(100, per="15min", only="read")) == 0


def test_a_rolling_window_lets_its_amount_through_in_its_length() -> None:
    limit = Limit(60, per="min", rolling=True, reserve=10)

    assert played(150, reads(1), limit) == pytest.approx(120)


def test_others_take_their_part_while_they_have_work_left() -> None:
    limit = Limit(100, per="15min")

    # One other: each has 50 of a window.
    assert played(100, reads(1), limit, others=(1000,)) == pytest.approx(900)
    # It is done after 10, so there are 80 for us.
    assert played(80, reads(1), limit, others=(10,)) == 0
    # Where each connection has its own, nobody shares.
    own = Limit(100, per="15min", scope=Scope.CONNECTION)
    assert played(100, reads(1), own, others=(1000,)) == 0
    # And they may take less than we think.
    assert played(66, reads(1), limit, others=(1000,), weight=0.5) == 0


def test_slots_are_shared() -> None:
    alone = played(10, reads(1, 2), slots=2)

    assert alone == played(10, reads(1, 2), slots=2, others=(99,)) == pytest.approx(20)
    assert played(10, reads(1, 2), slots=2, others=(99, 99, 99)) == pytest.approx(40)
    each = played(10, reads(1, 2), slots=1, slots_scope=Scope.CONNECTION, others=(99,))
    assert each == pytest.approx(20)


def test_live_work_takes_its_part_of_every_window() -> None:
    # 40 live requests in the last four hours are 2.5 in a quarter of an hour; by the day's window.
    limits = (Limit(100, per="15min"), Limit(10_000, per="day"))
    morning = use(
        window("15min", used=0, ends=QUARTER),
        window("day", used=480, hot=480, ends=timedelta(hours=12), amount=10_000),
    )

    # That is one in 90 s: 10 in a window. So 90 and not 100 a window, if the window is used evenly.
    quiet = played(95, reads(1, 9), *limits)
    busy = played(95, reads(1, 9), *limits, use=morning)
    assert quiet == pytest.approx(855)
    assert busy == pytest.approx(945, abs=30)
    assert played(95, reads(1, 9), *limits, use=morning, live=0) == pytest.approx(855)
    # A stretch that is too short tells nothing, and neither does a limit on something else.
    now = use(window("15min", used=5, hot=5, ends=QUARTER - timedelta(seconds=10)))
    assert played(95, reads(1, 9), Limit(100, per="15min"), use=now) == pytest.approx(855)
    other = use(window("read day", used=480, hot=480, ends=timedelta(hours=12), amount=10_000))
    limits = (Limit(100, per="15min"), Limit(10_000, per="day", only="read"))
    assert played(95, reads(1, 9), *limits, use=other) == pytest.approx(855)
    # In a rolling window, its whole length was counted.
    rolled = use(window("min", used=30, hot=30, ends=timedelta(minutes=1), amount=60))
    limit = Limit(60, per="min", rolling=True)
    assert played(60, reads(1, 1), limit, use=rolled) > played(60, reads(1, 1), limit) + 10


def test_a_reserve_that_decays_lets_more_through() -> None:
    limit = Limit(100, per="15min", reserve=50)

    fixed = played(90, reads(1, 8), limit)
    assert fixed > 900
    assert played(88, reads(1, 8), limit, reserve_decay=True) == pytest.approx(704)
    # There it meets the reserve, which goes on shrinking, but for what one burst needs.
    assert played(90, reads(1, 8), limit, reserve_decay=True) == pytest.approx(742, abs=10)
    assert played(98, reads(1, 8), limit, reserve_decay=True) > 900


def test_a_busy_live_work_does_not_stop_the_play() -> None:
    flooded = use(window("min", used=100, hot=10_000, ends=timedelta(seconds=0.5)))

    assert played(5, reads(1), Limit(100, per="min"), use=flooded) < 600


def test_parts_of_requests_add_up() -> None:
    # Every second day a read, of which one in an hour is allowed.
    assert played(8, reads(0.5), Limit(1, per="hour")) == pytest.approx(3 * 3600)


def test_a_long_job_is_played_in_larger_steps() -> None:
    days = 2500
    assert days > 10 * STEPS_MAX
    limits = (Limit(1000, per="day"),)

    # 2,500 reads: two midnights are waited for.
    assert played(days, reads(1, 0.1), *limits) == pytest.approx(36 * 3600 + 50, abs=60)
    assert played(days, reads(0.1, 0.01), *limits) == pytest.approx(25, abs=1)


@given(
    st.integers(1, 500),
    st.floats(0, 5),
    st.floats(0, 10),
    st.integers(1, 500),
    st.sampled_from(["min", "15min", "hour", "day"]),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 500), max_size=4),
)
def test_every_play_ends_and_takes_at_least_the_work(
    units: int,
    count: float,
    seconds: float,
    amount: int,
    per: str,
    rolling: bool,
    paced: bool,
    others: list[int],
) -> None:
    limit = Limit(amount, per=per, rolling=rolling, reserve=amount // 5)

    took_s = played(
        units, reads(count, seconds), limit, others=tuple(map(float, others)), paced=paced
    )

    work_s = units * seconds
    # The last part of a request may not be played.
    assert took_s >= work_s - (seconds / count if count else 0) * max(1, units / STEPS_MAX) - 1e-3
