"""Streams: plausible points, the same for the same seed."""

import itertools

import pytest

from headgate_sandbox.strava.activity import Activity, Place, Shares, draw_activity
from headgate_sandbox.strava.shapes import polyline
from headgate_sandbox.strava.streams import TYPES, Points

RUNS = [
    draw_activity(
        1, Place(index, 1, 1_700_000_000, 0, "UTC", (5.6, -0.19)), Shares(manual=0), points=500
    )
    for index in range(40)
]


@pytest.mark.parametrize("activity", RUNS[:20], ids=lambda activity: activity.sport_type)
def test_points_look_like_an_outing(activity: Activity) -> None:
    points = Points(1, activity, 500)
    made = {name: stream["data"] for name, stream in points.make(TYPES).items()}

    times, metres = made["time"], made["distance"]
    assert isinstance(times, list)
    assert isinstance(metres, list)
    assert {len(series) for series in made.values() if isinstance(series, list)} == {500}
    assert all(one < other for one, other in itertools.pairwise(times))
    assert all(one <= other for one, other in itertools.pairwise(metres))
    assert (times[0], times[-1], metres[0]) == (0, activity.elapsed_s, 0.0)
    assert metres[-1] == pytest.approx(activity.distance_m, abs=0.1)
    if "heartrate" in made:
        beats = made["heartrate"]
        assert isinstance(beats, list)
        assert min(beats) >= 90
        assert max(beats) <= 185
        assert len(set(beats)) > 5


def test_a_path_begins_at_the_origin_and_has_no_leaps() -> None:
    run = next(each for each in RUNS if each.origin is not None)
    path = Points(1, run, 500).latlng()
    stride = run.distance_m / 499 / 111_320

    assert tuple(path[0]) == run.origin
    leaps = [
        max(abs(here[0] - there[0]), abs(here[1] - there[1]))
        for here, there in itertools.pairwise(path)
    ]
    assert max(leaps) <= 2 * stride
    assert len({tuple(point) for point in path}) > 100


def test_an_activity_has_only_what_was_measured() -> None:
    indoors = next(each for each in RUNS if each.origin is None)
    without_heart = next(each for each in RUNS if each.average_heartrate is None)

    assert "latlng" not in Points(1, indoors, 500).make(TYPES)
    assert "heartrate" not in Points(1, without_heart, 500).make(TYPES)


def test_distance_always_comes_and_equal_seeds_give_equal_points() -> None:
    points = Points(1, RUNS[0], 500)
    run = next(each for each in RUNS if each.average_heartrate is not None)

    assert list(points.make(["time"])) == ["time", "distance"]
    # Unknown types are passed over.
    assert list(points.make(["mood", ""])) == ["distance"]
    assert Points(1, run, 500).make(TYPES) == Points(1, run, 500).make(TYPES)
    assert Points(1, run, 500).make(TYPES) != Points(2, run, 500).make(TYPES)
    # There are never more points than seconds.
    assert Points(1, RUNS[0], 1_000_000).size == RUNS[0].elapsed_s + 1


def test_a_polyline_is_encoded_as_the_format_says() -> None:
    # The example of the format's own documentation.
    assert polyline([(38.5, -120.2), (40.7, -120.95), (43.252, -126.453)]) == (
        "_p~iF~ps|U_ulLnnqC_mqNvxq`@"
    )
