"""The sentences about how long a job takes."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.estimate.time_left import how_long, time_left, time_needed, why_no_estimate
from headgate.model.forecast import Finish
from headgate.model.job import Progress, Reason
from headgate.model.states import JobState
from tests.unit.values import NOW, make_job

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@pytest.mark.parametrize(
    ("first_s", "last_s", "told"),
    [
        (0, 0, "less than a minute"),
        (10, 59, "less than a minute"),
        (30, MINUTE, "at most 1 minute"),
        (MINUTE, MINUTE, "about 1 minute"),
        (70, 130, "about 1 to 3 minutes"),
        (5 * MINUTE, 5 * MINUTE, "about 5 minutes"),
        (12 * MINUTE, 18 * MINUTE, "about 12 to 18 minutes"),
        (41 * MINUTE, 68 * MINUTE, "about 40 to 70 minutes"),
        (18 * MINUTE, 31 * MINUTE, "about 18 to 35 minutes"),
        # A wide range is told in the smaller unit, so that its beginning is not zero.
        (30 * MINUTE, 3 * HOUR, "about 30 to 180 minutes"),
        (90 * MINUTE, 3 * HOUR, "about 1 to 3 hours"),
        (30 * MINUTE, 5 * HOUR, "at most 5 hours"),
        (4 * HOUR, 43 * HOUR, "about 4 to 45 hours"),
        (20 * HOUR, 60 * HOUR, "about 20 to 60 hours"),
        (30 * HOUR, 60 * HOUR, "about 1 to 3 days"),
        (12 * HOUR, 8 * DAY, "at most 8 days"),
    ],
)
def test_a_range_is_told_in_plain_words(first_s: float, last_s: float, told: str) -> None:
    assert how_long(first_s, last_s) == told


@given(st.floats(0, 10**7), st.floats(0, 10**7))
def test_a_range_that_is_told_is_never_narrower(one_s: float, other_s: float) -> None:
    first_s, last_s = sorted((one_s, other_s))
    words = how_long(first_s, last_s).split()
    numbers = [int(word) for word in words if word.isdigit()] or [1]
    size_s = {"minute": MINUTE, "hour": HOUR, "day": DAY}[words[-1].removesuffix("s")]

    assert numbers[-1] * size_s >= last_s
    assert words[0] != "about" or numbers[0] * size_s <= first_s


def finish(first_min: float, last_min: float) -> Finish:
    first, last = NOW + timedelta(minutes=first_min), NOW + timedelta(minutes=last_min)
    return Finish(earliest=first, likely=first, latest=last)


@pytest.mark.parametrize(
    ("first_min", "last_min", "told"),
    [
        (40, 70, "About 40 to 70 minutes left."),
        (-5, 3, "At most 3 minutes left."),
        (-5, 0.1, "Less than a minute left."),
        (-5, -1, "Taking longer than expected."),
    ],
)
def test_the_time_left_is_a_sentence(first_min: float, last_min: float, told: str) -> None:
    assert time_left(finish(first_min, last_min), NOW) == told


def test_the_time_needed_is_one_too() -> None:
    assert time_needed(finish(40, 70), NOW) == "Takes about 40 to 70 minutes."


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"state": JobState.RUNNING}, None),
        ({"state": JobState.SUCCESS, "reason": Reason.DONE}, None),
        ({"state": JobState.CANCELLING}, None),
        ({"state": JobState.RUNNING, "progress": Progress(done=3)}, None),
        (
            {"state": JobState.PENDING, "reason": Reason.RETRYING, "attempts": 1},
            "No estimate while requests to Fitbit fail.",
        ),
        (
            {"state": JobState.PAUSED, "reason": Reason.BREAKER, "error": "x", "provider": "roam"},
            "No estimate while requests to roam fail.",
        ),
        (
            {"state": JobState.PAUSED, "reason": Reason.OPERATOR, "error": "x"},
            "No estimate while it is paused.",
        ),
        ({"state": JobState.PENDING, "reason": Reason.IDLE}, "No estimate while it waits."),
        ({"state": JobState.PAUSED, "reason": Reason.RECOVERING}, "No estimate while it waits."),
        (
            {"state": JobState.RUNNING, "pause_requested": True},
            "No estimate: it will be paused.",
        ),
    ],
)
def test_where_nobody_can_tell_it_says_why(fields: dict[str, Any], told: str | None) -> None:
    job = make_job(**{"progress": Progress(done=1, total=9), **fields})

    assert why_no_estimate(job, {"fitbit": "Fitbit"}) == told
