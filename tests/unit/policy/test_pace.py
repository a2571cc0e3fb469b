"""What a job's chunks took, added up."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.pace import Effort, Pace
from headgate.policy.pace import (
    FADE,
    QUEUE_S_MAX,
    VARIATION,
    add,
    add_chunk,
    capped,
    variation,
)
from tests.unit.values import NOW


def effort(began_s: float, took_s: float, **more: object) -> Effort:
    began_at = NOW + timedelta(seconds=began_s)
    return Effort(began_at=began_at, ended_at=began_at + timedelta(seconds=took_s), **more)  # type: ignore[arg-type]


def test_a_chunk_is_told_apart_into_providers_waits_and_the_rest() -> None:
    one = effort(
        0, 10, work_s={"watch": 3.0, "shelf": 2.0}, waited_s=4.0, requests={"watch": {"read": 7}}
    )

    pace = add_chunk(Pace(), one, units=1, followed=True)

    assert (pace.chunks, pace.units, pace.seconds, pace.squares) == (1, 1, 10, 100)
    assert pace.work_s == {"watch": 3.0, "shelf": 2.0}
    assert pace.own_s == pytest.approx(1.0)
    assert pace.requests == {"watch": {"read": 7}}
    assert pace.ended_at == one.ended_at


@pytest.mark.parametrize(
    ("between_s", "followed", "queued_s"),
    [
        (20, True, 20),
        # A job that was deferred has slept for a window, which is not the pace of its chunks.
        (20, False, 0),
        # Nobody waits that long for a worker: it was paused.
        (QUEUE_S_MAX + 1, True, 0),
        # Clocks of two workers differ.
        (-5, True, 0),
    ],
)
def test_the_wait_for_a_worker_counts_and_a_sleep_does_not(
    between_s: float, followed: bool, queued_s: float
) -> None:
    before = Pace(ended_at=NOW)

    pace = add_chunk(before, effort(between_s, 2), units=1, followed=followed)

    assert (pace.seconds, pace.own_s) == (2 + queued_s, 2 + queued_s)


def test_older_chunks_count_less() -> None:
    pace = Pace()
    for _ in range(2000):
        pace = add_chunk(
            pace, effort(0, 1, requests={"watch": {"read": 2}}), units=1, followed=False
        )

    assert pace.chunks == pytest.approx(1 / (1 - FADE), rel=0.01)
    assert pace.seconds / pace.chunks == pytest.approx(1)
    assert pace.requests["watch"]["read"] / pace.units == pytest.approx(2, rel=0.01)


def test_a_pace_keeps_what_it_says_with_less_weight_and_two_are_one() -> None:
    pace = Pace(chunks=100, units=100, seconds=200, squares=500, own_s=50, ended_at=NOW)
    less = capped(pace, 10)
    assert (less.chunks, less.units, less.seconds, less.ended_at) == (10, 10, 20, NOW)
    assert capped(less, 10) is less

    both = add(
        Pace(chunks=1, requests={"a": {"read": 1}}, ended_at=NOW),
        Pace(chunks=2, requests={"a": {"upload": 2}, "b": {"read": 3}}),
    )
    assert (both.chunks, both.ended_at) == (3, NOW)
    assert both.requests == {"a": {"read": 1, "upload": 2}, "b": {"read": 3}}


def test_how_much_chunks_vary_is_assumed_until_it_is_measured() -> None:
    even = Pace(chunks=200, seconds=200, squares=200)
    # Half of them take nothing, the others twice the mean.
    uneven = Pace(chunks=200, seconds=200, squares=400)

    assert variation(Pace()) == variation(Pace(chunks=0)) == VARIATION
    assert variation(even) < 0.1
    assert variation(uneven) == pytest.approx(1, rel=0.02)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=50))
def test_sums_never_fall_below_zero(seconds: list[float]) -> None:
    pace = Pace()
    for took_s in seconds:
        pace = add_chunk(pace, effort(0, took_s, waited_s=took_s / 2), units=1, followed=True)

    assert pace.own_s >= 0 and variation(pace) >= 0
