"""Ids are unique and sort by when they were made, whatever the clock does."""

import random
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headgate.base.clock import ManualClock
from headgate.base.ids import UlidIds, derived_id, system_random

START = datetime(2026, 3, 1, tzinfo=UTC)
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

#: A clock that was never set begins in 1970, or before it, west of Greenwich.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

seeds = st.integers(0, 2**32)
clocks = st.sampled_from([START, EPOCH, EPOCH - timedelta(days=1)])
#: Seconds that pass between two ids: also none, less than a millisecond, and back.
moves = st.lists(
    st.one_of(st.just(0.0), st.floats(0.0, 0.002), st.floats(-3600.0, 3600.0)), max_size=200
)


def made(seed: int, steps: list[float], *, start: datetime = START) -> list[str]:
    """An id, and one more after each step of the clock."""
    clock = ManualClock(start)
    ids = UlidIds(clock, random.Random(seed))
    found = [ids.new("job")]
    for seconds in steps:
        clock.advance(seconds)
        found.append(ids.new("job"))
    return found


@given(seeds, moves, clocks)
def test_ids_sort_as_they_were_made_even_if_the_clock_goes_back(
    seed: int, steps: list[float], start: datetime
) -> None:
    # And many while it stands still.
    for found in (made(seed, steps, start=start), made(seed, [0.0] * 500, start=start)):
        assert found == sorted(found)
        assert len(found) == len(set(found))


@given(seeds, seeds, clocks)
def test_two_processes_at_the_same_moment_make_different_ids(
    one: int, other: int, start: datetime
) -> None:
    same = made(one, [0.0] * 10, start=start)
    others = made(other, [0.0] * 10, start=start)

    assert (one == other) or not set(same) & set(others)


@given(seeds, moves, clocks)
def test_an_id_is_its_prefix_and_26_letters_that_cannot_be_mistaken(
    seed: int, steps: list[float], start: datetime
) -> None:
    for each in made(seed, steps, start=start):
        prefix, letters = each.split("_")
        assert prefix == "job"
        assert len(letters) == 26
        assert set(letters) <= set(CROCKFORD)


def test_the_first_ten_letters_tell_the_millisecond() -> None:
    [first] = made(0, [])

    milliseconds = 0
    for letter in first.removeprefix("job_")[:10]:
        milliseconds = 32 * milliseconds + CROCKFORD.index(letter)
    assert milliseconds == START.timestamp() * 1000


def test_the_same_seed_and_clock_make_the_same_ids_and_another_prefix_another() -> None:
    assert made(7, [0.0, 1.0]) == made(7, [0.0, 1.0])
    assert UlidIds(ManualClock(START), random.Random(0)).new("run").startswith("run_")


def test_the_system_s_randomness_cannot_be_seeded() -> None:
    one, other = system_random(), system_random()
    one.seed(1)
    other.seed(1)

    assert [one.getrandbits(64) for _ in range(4)] != [other.getrandbits(64) for _ in range(4)]


def test_a_derived_id_is_the_same_for_the_same_parts_and_sorts_by_time_among_new_ones() -> None:
    clock = ManualClock(START)
    ids = UlidIds(clock, random.Random(1))
    before = ids.new("message")
    clock.advance(1)
    at = clock.now()
    first = derived_id("message", at, "job_1", 1, "failed")
    assert first == derived_id("message", at, "job_1", 1, "failed")
    assert first != derived_id("message", at, "job_1", 1, "recovered")
    assert first < derived_id("message", at + timedelta(milliseconds=1), "job_1", 1, "failed")
    assert first.startswith("message_01K") and len(first) == len("message_") + 26
    clock.advance(1)
    assert before < first < ids.new("message")
