"""The meter: the provider's own count, in aligned and in rolling windows."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headgate.base.clock import ManualClock
from headgate_sandbox.kit.meter import Meter
from headgate_sandbox.kit.windows import Window

START = datetime(2026, 1, 5, 11, 59, tzinfo=UTC)

QUARTER = Window(name="quarter", limit=3, seconds=900)
DAY = Window(name="day", limit=10, seconds=86_400)
MINUTE = Window(name="minute", limit=2, seconds=60, rolling=True)


def test_a_request_counts_in_every_window_and_is_refused_when_one_is_spent() -> None:
    meter = Meter(ManualClock(START), [QUARTER, DAY])

    readings = [meter.arrive() for _ in range(5)]

    assert [reading.beyond for reading in readings] == [(), (), (), ("quarter",), ("quarter",)]
    assert [reading.used["quarter"] for reading in readings] == [1, 2, 3, 4, 5]
    [quarter], [day] = meter.tallies("quarter"), meter.tallies("day")
    assert (quarter.allowed, quarter.refused, quarter.used, quarter.peak) == (3, 2, 5, 5)
    # The short limit refused them, but the day counts them all the same.
    assert (day.allowed, day.refused, day.used, day.beyond) == (3, 2, 5, 0)


def test_an_aligned_window_begins_at_the_whole_quarter_hour() -> None:
    clock = ManualClock(START)
    meter = Meter(clock, [QUARTER, DAY])

    before = meter.arrive()
    clock.advance(60)
    after = meter.arrive()

    assert (before.resets_in_s["quarter"], after.resets_in_s["quarter"]) == (60, 900)
    assert (before.used["quarter"], after.used["quarter"], after.used["day"]) == (1, 1, 2)
    assert [tally.starts_at for tally in meter.tallies("quarter")] == [
        datetime(2026, 1, 5, 11, 45, tzinfo=UTC),
        datetime(2026, 1, 5, 12, tzinfo=UTC),
    ]


def test_only_the_named_windows_count_until_a_reset() -> None:
    meter = Meter(ManualClock(START), [QUARTER, DAY])

    assert meter.arrive(windows=["day"]).used == {"quarter": 0, "day": 1}
    for _ in range(4):
        meter.arrive()
    meter.reset()

    assert meter.overshoot() == 0
    assert meter.read().used == {"quarter": 0, "day": 0}


def test_the_day_is_the_utc_day() -> None:
    clock = ManualClock(datetime(2026, 1, 5, 23, 59, 59, tzinfo=UTC))
    meter = Meter(clock, [DAY])

    first = meter.arrive()
    clock.advance(1)

    assert first.resets_in_s["day"] == 1
    assert meter.read().used["day"] == 0


def test_a_rolling_window_forgets_one_request_at_a_time() -> None:
    clock = ManualClock(START)
    meter = Meter(clock, [MINUTE])

    meter.arrive()
    clock.advance(30)
    meter.arrive()
    refused = meter.arrive()
    clock.advance(30)  # the first one is 60 seconds old: gone
    reading = meter.read()

    assert refused.beyond == ("minute",)
    assert refused.resets_in_s["minute"] == 30
    assert reading.used["minute"] == 2
    [tally] = meter.tallies("minute")
    assert (tally.allowed, tally.refused, tally.peak) == (2, 1, 3)


def test_a_request_beyond_two_limits_is_one_overshoot_and_may_be_left_uncounted() -> None:
    short = Window(name="short", limit=1, seconds=60)
    long = Window(name="long", limit=1, seconds=3_600, counts_refused=False)
    meter = Meter(ManualClock(START), [short, long])

    meter.arrive()
    reading = meter.arrive()

    assert reading.beyond == ("short", "long")
    assert meter.overshoot() == 1
    assert (meter.overshoot(window="short"), meter.overshoot(window="long")) == (1, 1)
    [tally] = meter.tallies("long")
    assert (tally.used, tally.refused, tally.beyond) == (1, 1, 1)


def test_keys_do_not_share_a_window_but_overshoot_adds_up() -> None:
    meter = Meter(ManualClock(START), [QUARTER])

    for key, times in (("ada", 5), ("bo", 4), ("chidi", 3)):
        for _ in range(times):
            meter.arrive(key)

    assert [meter.overshoot(key) for key in ("ada", "bo", "chidi")] == [2, 1, 0]
    assert meter.overshoot() == 3
    assert meter.overshoot(window="quarter") == 3


@given(st.lists(st.floats(min_value=0, max_value=100), max_size=60), st.booleans())
def test_no_more_than_the_limit_is_allowed_in_any_window(
    pauses: list[float], rolling: bool
) -> None:
    clock = ManualClock(START)
    window = Window(name="w", limit=3, seconds=120, rolling=rolling, counts_refused=False)
    meter = Meter(clock, [window])
    allowed: list[datetime] = []

    for pause in pauses:
        clock.advance(pause)
        if not meter.arrive().beyond:
            allowed.append(clock.now())

    def within(start: datetime) -> int:
        end = start + timedelta(seconds=window.seconds)
        return sum(start <= at < end for at in allowed)

    # A rolling window holds from any moment on; an aligned one from its own beginnings.
    starts = allowed if rolling else [tally.starts_at for tally in meter.tallies("w")]
    assert all(within(start) <= window.limit for start in starts)
    assert len(allowed) + meter.overshoot() == len(pauses)
