"""Filters: the days on which a point begins, and a 400 for everything else."""

import pytest

from headgate_sandbox.google_health.data_types import DATA_TYPES
from headgate_sandbox.google_health.filters import LATEST_S, BadFilter, Bounds, parse
from tests.sandbox.google_health.worlds import TYPES, every, make, problem

#: 2023-11-24T00:00:00Z.
DAY_S = 1_700_784_000
STEPS = "steps.interval.civil_start_time"


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        (f'{STEPS} >= "2023-11-24" AND {STEPS} < "2023-11-25"', Bounds(DAY_S, DAY_S + 86_400)),
        (f'{STEPS}>="2023-11-24"', Bounds(DAY_S, LATEST_S)),
        (f'{STEPS} < "2023-11-24"', Bounds(0, DAY_S)),
        ("  ", Bounds(0, LATEST_S)),
    ],
)
def test_a_filter_is_from_a_day_up_to_another(text: str, bounds: Bounds) -> None:
    assert parse(text, DATA_TYPES["steps"]) == bounds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('distance.interval.civil_start_time >= "2023-11-24"', f"takes {STEPS} >= "),
        (f'{STEPS} > "2023-11-24"', "takes"),
        (f'{STEPS} >= "2023-11-24T00:00:00"', "takes"),
        (f'{STEPS} >= "2023-11-24" OR {STEPS} < "2023-11-20"', "takes"),
        (f'{STEPS} >= "2023-11-24" AND ', "takes"),
        (f'{STEPS} >= "2023-02-30"', "no date"),
    ],
)
def test_anything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadFilter, match=why):
        parse(text, DATA_TYPES["steps"])


async def test_a_day_at_a_time_gives_the_whole_history_and_nothing_twice() -> None:
    _, client, _ = make(days=12)
    field = "exercise.interval.civil_start_time"

    found = []
    for day in range(31, 0, -1):
        end = f"2025-12-{day + 1:02}" if day < 31 else "2026-01-01"
        bounds = f'{field} >= "2025-12-{day:02}" AND {field} < "{end}"'
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
