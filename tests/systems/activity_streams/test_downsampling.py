"""Fewer points: which are kept, whatever the points are."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.systems.activity_streams.downsampling import lttb, pick_points

numbers = st.floats(-1e6, 1e6, allow_nan=False) | st.integers(-(10**6), 10**6)
series = st.lists(numbers, min_size=1, max_size=300)


@given(series, st.integers(2, 400))
@example([1.0, 5.0, 2.0], 2)
def test_the_ends_stay_the_order_stays_and_the_number_is_exact(ys: list[float], n: int) -> None:
    kept = lttb(range(len(ys)), ys, n)

    assert len(kept) == min(n, len(ys))
    assert kept[0] == 0 and kept[-1] == len(ys) - 1
    assert all(one < other for one, other in pairwise(kept))


@given(series)
def test_where_no_fewer_are_asked_for_all_are_kept(ys: list[float]) -> None:
    assert list(lttb(range(len(ys)), ys, max(2, len(ys)))) == list(range(len(ys)))


@given(st.integers(10, 200), st.integers(3, 9), st.data())
def test_a_lone_peak_is_always_kept(size: int, n: int, data: st.DataObject) -> None:
    peak = data.draw(st.integers(1, size - 2))
    ys = [0.0] * size
    ys[peak] = 100.0

    assert peak in lttb(range(size), ys, n)


@given(st.integers(5, 300), st.integers(3, 100), st.floats(0.1, 1e3), st.floats(-1e3, 1e3))
def test_the_scale_of_the_values_does_not_matter(size: int, n: int, by: float, up: float) -> None:
    # Powers of two, so that scaling is exact.
    scale, shift = 2.0 ** round(math.log2(by)), float(round(up))
    ys = [float((place * 37) % 101) for place in range(size)]

    scaled = lttb(range(size), [value * scale for value in ys], n)

    assert scaled == lttb(range(size), ys, n)
    assert len(lttb(range(size), [value + shift for value in ys], n)) == min(n, size)


def test_of_each_bucket_the_point_of_the_largest_triangle_is_kept() -> None:
    # Eight between the ends, four to a bucket. From (0, 0) the middle of the next bucket is
    # (6.5, 0): the farthest from that line is 3. From there the last point takes 7.
    ys = [0, 1, -2, 5, 1, 1, -3, -4, 2, 0]

    assert lttb(range(10), ys, 4) == [0, 3, 7, 9]


def test_points_are_laid_out_over_time_and_not_over_their_number() -> None:
    ys = [0.0, 4.0, 5.0, 10.0, 10.0]

    # On the line through (0, 0) and (10, 10), nearly; the pause puts the second far off it.
    assert lttb([0, 1, 2, 3, 10], ys, 3) != lttb([0, 4, 5, 10, 10], ys, 3)


# ---- several channels --------------------------------------------------------------------------

TIME = list(range(100))
PEAK = [100 if place == 42 else 0 for place in TIME]
DIP = [-100 if place == 77 else 0 for place in TIME]
PLACES = [[52.0, 4.0] for _ in TIME]

Channels = dict[str, Sequence[object]]


def test_the_first_channel_with_a_shape_decides() -> None:
    channels: Channels = {"time": TIME, "heartrate": PEAK, "altitude": DIP, "latlng": PLACES}

    by_heart = pick_points(channels, ["time", "latlng", "heartrate", "altitude"], 5, size=100)
    by_height = pick_points(channels, ["altitude", "heartrate"], 5, size=100)

    assert by_heart.by == "heartrate" and 42 in by_heart.indices
    assert by_height.by == "altitude" and 77 in by_height.indices


def test_where_none_has_one_it_is_the_distance_and_then_the_time() -> None:
    moving = [place % 2 == 0 for place in TIME]
    channels: Channels = {"moving": moving, "latlng": PLACES, "distance": PEAK, "time": TIME}

    assert pick_points(channels, ["time", "latlng", "moving"], 5, size=100).by == "distance"
    del channels["distance"]
    assert pick_points(channels, ["latlng", "moving"], 5, size=100).by == "time"


def test_without_any_numbers_the_points_are_dealt_out_evenly() -> None:
    picked = pick_points({"latlng": PLACES}, ["latlng"], 5, size=100)

    assert picked.by is None
    assert picked.indices == [0, 1, 33, 66, 99]


def test_all_are_kept_for_nobodys_sake() -> None:
    picked = pick_points({"time": TIME, "heartrate": PEAK}, ["heartrate"], 100, size=100)

    assert picked.by is None
    assert list(picked.indices) == TIME


@pytest.mark.parametrize("gap", [0, 50])
def test_a_value_that_is_missing_is_as_the_one_before(gap: int) -> None:
    heart: list[int | None] = [*PEAK]
    heart[gap] = None

    picked = pick_points({"time": TIME, "heartrate": heart}, ["heartrate"], 5, size=100)

    assert picked.by == "heartrate" and 42 in picked.indices


def test_a_channel_of_another_length_decides_nothing() -> None:
    channels: Channels = {"time": TIME, "heartrate": PEAK[:-1], "altitude": DIP}

    assert pick_points(channels, ["heartrate", "altitude"], 5, size=100).by == "altitude"
