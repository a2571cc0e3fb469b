"""The arithmetic of windows: what is counted where, what is left, and when there is room again."""

from math import ceil

from hypothesis import assume, given
from hypothesis import strategies as st

from headgate.model.budget import Bucket, Limit
from headgate.policy import windows

#: Around the turn of a day, in milliseconds.
NOW = st.integers(1_767_570_000_000, 1_767_620_000_000)
LENGTHS = st.sampled_from(["2s", "30s", "min", "7min", "15min", "hour", "day"])
AMOUNTS = st.integers(1, 20)


@st.composite
def limits(draw: st.DrawFn, *, rolling: bool | None = None) -> Limit:
    """Any limit, without a reserve."""
    slides = draw(st.booleans()) if rolling is None else rolling
    return Limit(draw(AMOUNTS), per=draw(LENGTHS), rolling=slides)


@st.composite
def guarded(draw: st.DrawFn, *, rolling: bool | None = None) -> tuple[Limit, int]:
    """A limit, and a guard band that may be declared with it."""
    limit = draw(limits(rolling=rolling))
    return limit, draw(st.integers(0, windows.length_ms(limit) // 2 - 1))


@st.composite
def reserved(draw: st.DrawFn) -> Limit:
    """A window with fixed edges and a reserve."""
    amount = draw(st.integers(2, 200))
    return Limit(amount, per=draw(LENGTHS), reserve=draw(st.integers(1, amount - 1)))


def counted(limit: Limit, times: list[int], guard: int = 0) -> dict[str, Bucket]:
    """What is written down of requests at these times."""
    buckets: dict[str, Bucket] = {}
    for at in times:
        for place in windows.stretches_charged(limit, at, guard):
            buckets.setdefault(str(place), Bucket()).used += 1
    return buckets


@given(guarded(rolling=False), NOW, st.floats(-1, 1))
def test_a_request_counts_wherever_it_may_arrive(
    given_limit: tuple[Limit, int], now: int, off: float
) -> None:
    # Given a request that arrives by the provider's clock up to the guard band from when we ask
    limit, guard = given_limit
    arrives = now + round(off * guard)

    places = windows.stretches_charged(limit, now, guard)

    # Then the window that it arrives in has counted it, and never more than two have
    assert arrives // windows.length_ms(limit) in places
    assert len(places) <= 2
    assert places == tuple(range(places[0], places[-1] + 1))


@given(guarded(rolling=False), NOW)
def test_far_from_an_edge_a_request_counts_once(given_limit: tuple[Limit, int], now: int) -> None:
    limit, guard = given_limit
    into = now % windows.length_ms(limit)
    assume(guard <= into < windows.length_ms(limit) - guard)

    assert windows.stretches_charged(limit, now, guard) == (now // windows.length_ms(limit),)


@given(guarded(rolling=True), NOW, st.lists(st.floats(0, 2), max_size=30))
def test_a_rolling_window_counts_its_length_and_little_more(
    given_limit: tuple[Limit, int], now: int, ages: list[float]
) -> None:
    # Given requests up to two lengths ago
    limit, guard = given_limit
    times = [now - round(age * windows.length_ms(limit)) for age in ages]
    place = windows.stretches_charged(limit, now, guard)[0]

    used = windows.used_in_window(limit, counted(limit, times), place, guard)

    # Then each that may still be in the provider's window counts, and none that is two parts older
    reach = windows.length_ms(limit) + guard
    longest = reach + 2 * windows.stretch_ms(limit)
    assert sum(at >= now - reach for at in times) <= used
    assert used <= sum(at > now - longest for at in times)


@given(guarded(), NOW, st.lists(st.floats(0, 9), max_size=30))
def test_what_is_forgotten_is_not_missed(
    given_limit: tuple[Limit, int], now: int, ages: list[float]
) -> None:
    # Given counts of many windows
    limit, guard = given_limit
    buckets = counted(limit, [now - round(age * windows.length_ms(limit)) for age in ages], guard)

    # When what is too old is dropped
    oldest = windows.oldest_kept(limit, now, guard)
    kept = {key: bucket for key, bucket in buckets.items() if int(key) >= oldest}

    # Then every window that a request now counts in is used as much as before
    for place in windows.stretches_charged(limit, now, guard):
        assert windows.used_in_window(limit, kept, place, guard) == windows.used_in_window(
            limit, buckets, place, guard
        )


@given(guarded(rolling=True), NOW, st.lists(st.floats(0, 1.2), max_size=30), st.integers(1, 20))
def test_a_rolling_window_has_room_when_it_says_and_not_before(
    given_limit: tuple[Limit, int], now: int, ages: list[float], room: int
) -> None:
    # Given a window that has no room for so many more
    limit, guard = given_limit
    room = min(room, limit.amount)
    buckets = counted(limit, [now - round(age * windows.length_ms(limit)) for age in ages])
    place = now // windows.stretch_ms(limit)
    assume(windows.used_in_window(limit, buckets, place, guard) + room > limit.amount)

    free_at = windows.room_at(limit, buckets, place, room, guard)

    def used_at(at: int) -> int:
        return windows.used_in_window(limit, buckets, at // windows.stretch_ms(limit), guard)

    # Then it has at that time, and a moment before it had not
    assert free_at > now
    assert used_at(free_at) + room <= limit.amount
    assert used_at(free_at - 1) + room > limit.amount


@given(guarded(rolling=False), NOW)
def test_a_fixed_window_has_room_when_its_guard_band_is_over(
    given_limit: tuple[Limit, int], now: int
) -> None:
    # Given a window that is full, whichever of the two that a request counts in
    limit, guard = given_limit
    for place in windows.stretches_charged(limit, now, guard):
        free_at = windows.room_at(limit, {}, place, 1, guard)

        # Then it is counted in no more from then on, and still was a moment before
        assert free_at > now
        assert place not in windows.stretches_charged(limit, free_at, guard)
        assert place in windows.stretches_charged(limit, free_at - 1, guard)


@given(limits(), NOW)
def test_a_window_ends_within_its_length(limit: Limit, now: int) -> None:
    ends = windows.window_ends(limit, now)

    assert now < ends <= now + windows.length_ms(limit)
    assert limit.rolling or ends % windows.length_ms(limit) == 0


# ---- pace --------------------------------------------------------------------------------------


@given(limits(rolling=False), NOW, st.integers(1, 1000))
def test_backfill_is_paced_by_the_seeds_formula(limit: Limit, now: int, left: int) -> None:
    # The seed, in seconds: max(1.0, window_seconds_remaining / budget_remaining)
    seconds_left = (windows.window_ends(limit, now) - now) / 1000
    seed_s = max(1.0, seconds_left / left)

    pace = windows.pace_ms(limit, now, left, least_ms=1000)

    # To the millisecond, which is cut off
    assert seed_s * 1000 - 1 < pace <= seed_s * 1000 + 1e-6


@given(limits(), NOW, st.integers(-5, 0))
def test_with_nothing_left_the_pace_divides_by_nothing(limit: Limit, now: int, left: int) -> None:
    pace = windows.pace_ms(limit, now, left, least_ms=1000)

    assert pace == 1000 if not limit.rolling else pace >= 1000


@given(limits(rolling=True), NOW, st.integers(0, 20))
def test_a_rolling_window_is_paced_evenly(limit: Limit, now: int, left: int) -> None:
    pace = windows.pace_ms(limit, now, left, least_ms=0)

    assert pace * limit.amount >= windows.length_ms(limit)
    assert (pace - 1) * limit.amount < windows.length_ms(limit)


# ---- the reserve -------------------------------------------------------------------------------


def seen(limit: Limit, now: int, hot: list[int]) -> dict[str, Bucket]:
    """Live requests of the present window, and of those before it."""
    place = now // windows.length_ms(limit)
    return {str(place - ago): Bucket(used=count, hot=count) for ago, count in enumerate(hot)}


@given(reserved(), NOW, st.lists(st.integers(0, 300), max_size=6))
def test_a_shrinking_reserve_is_between_what_live_work_needs_and_the_fixed_one(
    limit: Limit, now: int, hot: list[int]
) -> None:
    # Given live work in the last windows
    length = windows.length_ms(limit)
    place = now // length
    share_left = ((place + 1) * length - now) / length

    kept = windows.reserve(limit, seen(limit, now, hot), place, now, decays=True)

    # Then as much is kept as the busiest of them would still need, up to the fixed reserve
    remembered = hot[: windows.REMEMBERED + 1]
    likely = ceil(max(remembered, default=0) * share_left)
    assert min(limit.reserve, likely) <= kept <= limit.reserve
    # And never less than its part of the time that is left
    assert kept >= min(limit.reserve, int(limit.reserve * share_left))


@given(reserved(), NOW)
def test_a_shrinking_reserve_is_whole_when_its_window_begins(limit: Limit, now: int) -> None:
    place = now // windows.length_ms(limit)

    for at in (place * windows.length_ms(limit), place * windows.length_ms(limit) - 1):
        assert windows.reserve(limit, {}, place, at, decays=True) == limit.reserve


@given(reserved(), NOW, st.integers(0, 200))
def test_a_shrinking_reserve_is_looked_at_again_when_it_may_have_shrunk(
    limit: Limit, now: int, found: int
) -> None:
    # Given backfill that finds less than is kept, and no live work at all
    length = windows.length_ms(limit)
    place = now // length
    kept = windows.reserve(limit, {}, place, now, decays=True)
    assume(kept)
    room = found % kept

    again = windows.reserve_frees_at(limit, place, now, room)

    # Then it does not ask in a tight loop, and does not miss its chance by more than it must
    assert again >= now + length // windows.ROLLING_PARTS
    if again < (place + 1) * length:
        left = (place + 1) * length - again
        assert limit.reserve * left // length <= room


@given(st.integers(2, 50), NOW)
def test_the_reserve_of_a_rolling_window_does_not_shrink(amount: int, now: int) -> None:
    limit = Limit(amount, per="min", reserve=amount - 1, rolling=True)
    place = now // windows.stretch_ms(limit)

    assert windows.reserve(limit, {}, place, now, decays=True) == amount - 1


def test_live_work_of_a_window_long_ago_keeps_no_reserve() -> None:
    place = windows.REMEMBERED + 1
    forgotten = {"0": Bucket(hot=50)}

    assert windows._live_need(forgotten, place, 0.5) == windows._live_need({}, place, 0.5)
    assert windows._live_need(forgotten, place - 1, 0.5) > windows._live_need({}, place, 0.5)
