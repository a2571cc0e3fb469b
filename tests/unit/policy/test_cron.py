"""Ticks of cron expressions in time zones: strictly later, once for every time on the wall."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.base.zones import instants_of, wall_of
from headgate.policy.cron import next_tick, next_ticks, ticks_until
from tests.profiles import examples

BERLIN = ZoneInfo("Europe/Berlin")
#: Zones whose clocks are set by an hour, by half an hour, at midnight, or never.
ZONES = [
    ZoneInfo(name)
    for name in ("Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Asia/Tokyo", "UTC")
]
FIXED = ["30 2 * * *", "0 2 * * *", "0,30 1,2,3 * * *", "0 0 * * *", "15 0 1 * *", "0 3 * * SUN"]
#: Each with the times on the wall that it means.
REPEATING: dict[str, Callable[[datetime], bool]] = {
    "*/15 * * * *": lambda wall: wall.minute % 15 == 0,
    "7 * * * *": lambda wall: wall.minute == 7,
    "*/20 2 * * *": lambda wall: wall.hour == 2 and wall.minute % 20 == 0,
    "* 1-3 * * *": lambda wall: 1 <= wall.hour <= 3,
}

zones = st.sampled_from(ZONES)
fixed, repeating = st.sampled_from(FIXED), st.sampled_from(sorted(REPEATING))
#: When the clocks of these zones are set in 2026, and any other time.
CHANGES = ["2026-03-29T01", "2026-10-25T01", "2026-04-04T15", "2026-10-03T15:30", "2026-03-08T05"]
instants = st.builds(
    lambda near, seconds: datetime.fromisoformat(f"{near}+00:00") + timedelta(seconds=seconds),
    st.sampled_from([*CHANGES, "2026-11-01T05", "2026-07-15T12"]),
    st.one_of(st.integers(-5 * 3600, 5 * 3600), st.integers(-100 * 86400, 100 * 86400)),
)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


@given(st.one_of(fixed, repeating), zones, instants)
def test_a_tick_is_always_later_than_the_one_before(
    cron: str, zone: ZoneInfo, after: datetime
) -> None:
    ticks = next_ticks(cron, zone, after, 20)

    assert all(one < other for one, other in zip([after, *ticks], ticks, strict=False))


@given(st.one_of(fixed, repeating), zones, instants, st.integers(0, 100_000))
def test_no_tick_lies_between_two_that_follow_each_other(
    cron: str, zone: ZoneInfo, after: datetime, seconds: int
) -> None:
    first, second = next_ticks(cron, zone, after, 2)

    between = first + timedelta(seconds=seconds % ((second - first).total_seconds()))
    assert next_tick(cron, zone, between) == second


@given(fixed, zones, instants)
def test_fixed_times_fire_once_for_each_time_that_the_expression_has(
    cron: str, zone: ZoneInfo, after: datetime
) -> None:
    ticks = next_ticks(cron, zone, after, 30)

    shown = [wall_of(tick, zone) for tick in ticks]
    times = CronSim(cron, wall_of(after, zone))
    wanted = [time for _, time in zip(range(200), times, strict=False) if time <= shown[-1]]
    # A time that the clock skips fires when the clock is set; several that it skips fire once.
    skipped = [time for time in wanted if not instants_of(time, zone)]
    assert [time for time in shown if time in wanted] == [
        time for time in wanted if time not in skipped and instants_of(time, zone)[0] > after
    ]
    assert len(shown) == len(set(shown))


@settings(max_examples=examples(0.5))
@given(repeating, zones, instants)
def test_repeating_times_fire_whenever_the_clock_shows_them(
    cron: str, zone: ZoneInfo, after: datetime
) -> None:
    ticks = next_ticks(cron, zone, after, 9)

    # Minute by minute, as slow as it is sure.
    at, expected = after.replace(second=0, microsecond=0), []
    while at < ticks[-1]:
        at += timedelta(minutes=1)
        if REPEATING[cron](wall_of(at, zone)):
            expected.append(at)
    assert ticks == expected


def test_a_skipped_hour_fires_when_the_clock_is_set() -> None:
    assert next_ticks("30 2 * * *", BERLIN, utc(2026, 3, 28, 12), 2) == [
        utc(2026, 3, 29, 1),
        utc(2026, 3, 30, 0, 30),
    ]
    # Two times in the skipped hour are one tick.
    assert next_ticks("0,30 2 * * *", BERLIN, utc(2026, 3, 28, 12), 2) == [
        utc(2026, 3, 29, 1),
        utc(2026, 3, 30, 0),
    ]


@pytest.mark.fault(20)
def test_a_repeated_hour_fires_once_for_a_fixed_time() -> None:
    assert next_ticks("30 2 * * *", BERLIN, utc(2026, 10, 24, 12), 2) == [
        utc(2026, 10, 25, 0, 30),
        utc(2026, 10, 26, 1, 30),
    ]


def test_asked_from_within_the_repeated_hour_no_tick_is_in_the_past() -> None:
    # Ten past two, for the second time: cronsim itself would answer half past two, the first time.
    assert next_tick("30 2 * * *", BERLIN, utc(2026, 10, 25, 1, 10)) == utc(2026, 10, 26, 1, 30)


def test_a_leap_day_is_waited_for() -> None:
    assert next_tick("0 0 29 2 *", ZoneInfo("UTC"), utc(2026, 1, 1)) == utc(2028, 2, 29)


def test_an_expression_without_a_tick_is_a_mistake_of_the_program() -> None:
    with pytest.raises(AssertionError, match="has no tick"):
        next_tick("0 0 */31 * MON#2", ZoneInfo("UTC"), utc(2026, 1, 1))


@given(st.one_of(fixed, repeating), zones, instants, st.integers(1, 60), st.integers(1, 30))
def test_the_last_ticks_are_found_without_walking_through_all(
    cron: str, zone: ZoneInfo, after: datetime, hours: int, limit: int
) -> None:
    first = next_tick(cron, zone, after)
    until = first + timedelta(hours=hours)

    every = [first]
    while (tick := next_tick(cron, zone, every[-1])) <= until:
        every.append(tick)
    assert ticks_until(cron, zone, first, until, limit) == every[-limit:]


def test_years_without_a_scheduler_are_no_long_walk() -> None:
    first = utc(2006, 1, 1)

    assert ticks_until("* * * * *", ZoneInfo("UTC"), first, utc(2026, 1, 1), 1) == [utc(2026, 1, 1)]
    with pytest.raises(AssertionError, match="older than the clock"):
        ticks_until("0 0 1 1 *", ZoneInfo("UTC"), utc(1900, 1, 1), utc(2026, 1, 1), 100)
