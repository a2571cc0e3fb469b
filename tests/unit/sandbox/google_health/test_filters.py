"""Filters: the comparisons that Google documents, and a 400 for everything else."""

import pytest

from headgate.sandbox.google_health.data_types import DATA_TYPES
from headgate.sandbox.google_health.filters import BadFilter, parse
from headgate.sandbox.google_health.point import Point
from tests.unit.sandbox.google_health.worlds import TYPES, every, make, problem

HOUR = 3_600
#: 2023-11-24T00:00:00Z.
DAY_S = 1_700_784_000


def holds(
    text: str, data_type: str, start_s: int, end_s: int | None = None, offset_s: int = 0
) -> bool:
    point = Point(start_s=start_s, end_s=start_s if end_s is None else end_s, fields={})
    found = parse(text, DATA_TYPES[data_type])
    low_s, high_s = found.span(offset_s)
    inside = found.holds(point, offset_s)
    # Whatever matches lies within the span, or a search by it would miss it.
    assert not inside or (low_s <= point.end_s and point.start_s <= high_s)
    return inside


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ('steps.interval.start_time >= "2023-11-24T00:00:00Z"', "steps"),
        ('steps.interval.start_time >= "2023-11-24T01:00:00.000+01:00"', "steps"),
        ('heart_rate.sample_time.physical_time >= "2023-11-24T00:00:00Z"', "heart-rate"),
        ('weight.sample_time.civil_time>="2023-11-24T00:00:00"', "weight"),
        ('exercise.interval.civil_start_time >= "2023-11-24"', "exercise"),
        ('(active_minutes.interval.civil_start_time >= "2023-11-24")', "active-minutes"),
    ],
)
def test_a_documented_comparison_is_inclusive_from_below(text: str, data_type: str) -> None:
    assert holds(text, data_type, DAY_S)
    assert not holds(text, data_type, DAY_S - 1)


def test_a_day_is_from_midnight_up_to_the_next_on_the_wall_clock() -> None:
    text = (
        'steps.interval.civil_start_time >= "2023-11-24" '
        'AND steps.interval.civil_start_time < "2023-11-25"'
    )

    east = 9 * HOUR
    assert holds(text, "steps", DAY_S - east, offset_s=east)
    assert not holds(text, "steps", DAY_S - east - 1, offset_s=east)
    assert not holds(text, "steps", DAY_S - east + 24 * HOUR, offset_s=east)


def test_sleep_is_found_by_its_end_and_knows_or() -> None:
    ends = "sleep.interval.end_time"
    text = f'{ends} < "2023-11-24T00:00:00Z" OR {ends} >= "2023-11-25T00:00:00Z"'

    assert holds(text, "sleep", DAY_S - 9 * HOUR, DAY_S - HOUR)
    assert not holds(text, "sleep", DAY_S - 2 * HOUR, DAY_S + 6 * HOUR)
    assert holds(text, "sleep", DAY_S + 22 * HOUR, DAY_S + 30 * HOUR)


def test_or_binds_closer_than_and() -> None:
    ends = "sleep.interval.end_time"
    text = (
        f'{ends} < "2023-11-24T00:00:00Z" OR {ends} >= "2023-11-25T00:00:00Z" '
        f'AND {ends} < "2023-11-26T00:00:00Z"'
    )

    # (before the 24th or from the 25th on), and before the 26th in any case.
    assert not holds(text, "sleep", DAY_S + 70 * HOUR, DAY_S + 78 * HOUR)
    assert holds(text, "sleep", DAY_S + 22 * HOUR, DAY_S + 30 * HOUR)
    grouped = f"({text.replace(' OR ', ') OR (')})"
    assert holds(grouped, "sleep", DAY_S - 9 * HOUR, DAY_S - HOUR)


def test_no_filter_is_everything() -> None:
    assert holds("", "steps", 0)
    assert holds("  ", "steps", DAY_S)


@pytest.mark.parametrize(
    ("text", "data_type", "why"),
    [
        ('steps.interval.end_time >= "2023-11-24T00:00:00Z"', "steps", "cannot be filtered"),
        ('exercise.interval.start_time >= "2023-11-24T00:00:00Z"', "exercise", "cannot be"),
        ('sleep.interval.civil_start_time >= "2023-11-24"', "sleep", "cannot be filtered"),
        ('distance.interval.civil_start_time >= "2023-11-24"', "steps", "cannot be filtered"),
        ('steps.interval.civil_start_time > "2023-11-24"', "steps", "operator '>'"),
        ('steps.interval.civil_start_time = "2023-11-24"', "steps", "operator '='"),
        ('steps.interval.civil_start_time >= "2023-11-24T00:00:00Z"', "steps", "no civil time"),
        ('steps.interval.civil_start_time >= "2023-13-24"', "steps", "no time"),
        ('steps.interval.start_time >= "2023-11-24"', "steps", "RFC-3339"),
        ("steps.interval.start_time >= 5", "steps", "unexpected '5'"),
        ("steps.interval.start_time >= later", "steps", "unexpected 'later'"),
        ("steps.interval.start_time", "steps", "unexpected the end"),
        ('steps.interval.civil_start_time >= "2023-11-24" AND', "steps", "unexpected the end"),
        ('(steps.interval.civil_start_time >= "2023-11-24"', "steps", "not closed"),
        ('steps.interval.civil_start_time >= "2023-11-24")', "steps", r"unexpected '\)'"),
        (
            'steps.interval.civil_start_time < "2023-11-24" '
            'OR steps.interval.civil_start_time >= "2023-11-25"',
            "steps",
            "OR is not supported",
        ),
        ("(" * 21, "sleep", "too deep"),
        (" " * 2_001, "sleep", "too long"),
    ],
)
def test_anything_else_is_refused(text: str, data_type: str, why: str) -> None:
    with pytest.raises(BadFilter, match=why):
        parse(text, DATA_TYPES[data_type])


async def test_a_day_at_a_time_gives_the_whole_history_and_nothing_twice() -> None:
    _, client, _ = make(days=12)
    field = "exercise.interval.civil_start_time"

    found = []
    for day in range(31, 0, -1):
        bounds = f'{field} >= "2025-12-{day:02}T00:00:00" AND {field} < '
        bounds += f'"2025-12-{day + 1:02}"' if day < 31 else '"2026-01-01"'
        found += await every(client, "exercise", filter=bounds)
    old = [
        point
        for point in await every(client, "exercise")
        if point["exercise"]["interval"]["civilStartTime"]["date"]["year"] == 2025
    ]

    assert found == old != []


async def test_a_bad_filter_is_a_400_in_googles_words() -> None:
    _, client, _ = make()

    answer = await client.get(f"{TYPES}/steps/dataPoints", filter="steps.count > 3")

    assert problem(answer) == (400, "INVALID_ARGUMENT", "filter")
