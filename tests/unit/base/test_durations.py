"""Durations as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.durations import DURATION_MAX, format_duration, parse_duration
from headgate.base.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2m", 120), ("15min", 900), ("4h", 14400), ("30d", 2592000), ("1w", 604800)],
)
def test_a_number_and_its_unit_are_a_duration(text: str, seconds: int) -> None:
    assert parse_duration("stagger", text) == timedelta(seconds=seconds)


def test_parts_are_added() -> None:
    assert parse_duration("stagger", " 1h 30m ") == timedelta(minutes=90)


def test_a_timedelta_is_taken_as_it_is() -> None:
    assert parse_duration("stagger", timedelta(milliseconds=1500)) == timedelta(seconds=1.5)


@pytest.mark.parametrize("wrong", ["", "2", "m", "-1m", "1.5h", "2 hours", "1h30", "½h", "٣m"])
def test_what_cannot_be_read_is_refused_with_its_field(wrong: str) -> None:
    with pytest.raises(InvalidInput, match=r"^stagger: .*such as 90s, 2m, 4h or 30d"):
        parse_duration("stagger", wrong)


@pytest.mark.parametrize("wrong", ["4000d", "999999999w", timedelta(seconds=-1)])
def test_what_is_too_long_or_negative_is_refused(wrong: str | timedelta) -> None:
    with pytest.raises(InvalidInput, match="between 0 and ten years"):
        parse_duration("stagger", wrong)


@given(st.integers(0, int(DURATION_MAX.total_seconds())))
def test_a_formatted_duration_is_read_as_the_same(seconds: int) -> None:
    span = timedelta(seconds=seconds)

    assert parse_duration("x", format_duration(span)) == span


def test_the_largest_units_come_first() -> None:
    assert format_duration(timedelta(days=1, hours=2, seconds=3)) == "1d2h3s"
    assert format_duration(timedelta(0)) == "0s"
