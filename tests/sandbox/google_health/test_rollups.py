"""Daily roll-ups: what a day adds up to, and how long a range may be."""

from collections import Counter

import pytest

from headgate_sandbox.google_health.day import Shares
from tests.sandbox.google_health.worlds import TYPES, civil, every, make, problem, roll_up


async def test_the_steps_of_a_day_are_the_sum_of_its_points() -> None:
    _, client, _ = make(days=30)
    summed: Counter[tuple[int, ...]] = Counter()
    for point in await every(client, "steps", pageSize=10_000):
        date = point["steps"]["interval"]["civilStartTime"]["date"]
        summed[date["year"], date["month"], date["day"]] += int(point["steps"]["count"])

    rolled = (await roll_up(client, "steps", "2025-12-01", "2026-01-10")).json()

    assert "nextPageToken" not in rolled
    assert {
        tuple(each["civilStartTime"]["date"].values()): int(each["steps"]["countSum"])
        for each in rolled["rollupDataPoints"]
    } == summed


@pytest.mark.parametrize(
    ("data_type", "key", "fields"),
    [
        ("distance", "distance", {"millimetersSum"}),
        (
            "heart-rate",
            "heartRate",
            {"beatsPerMinuteAvg", "beatsPerMinuteMax", "beatsPerMinuteMin"},
        ),
        ("weight", "weight", {"weightGramsAvg"}),
        ("total-calories", "totalCalories", {"kcalSum"}),
        ("active-minutes", "activeMinutes", {"activeMinutesRollupByActivityLevel"}),
    ],
)
async def test_every_type_rolls_up_to_its_own_value(
    data_type: str, key: str, fields: set[str]
) -> None:
    _, client, _ = make(shares=Shares(empty=0, weight=1))

    rolled = (await roll_up(client, data_type, "2025-12-20", "2026-01-03")).json()

    assert len(rolled["rollupDataPoints"]) == 14
    for each in rolled["rollupDataPoints"]:
        assert each.keys() == {"civilStartTime", "civilEndTime", key}
        assert each[key].keys() == fields


async def test_a_day_without_data_is_left_out_and_none_at_all_is_an_empty_object() -> None:
    _, client, _ = make(days=5, shares=Shares(empty=0))

    around = (await roll_up(client, "steps", "2025-12-25", "2026-01-10")).json()
    nothing = await roll_up(client, "steps", "2020-01-01", "2020-01-10")

    assert len(around["rollupDataPoints"]) == 5
    assert (nothing.status, nothing.json()) == (200, {})


@pytest.mark.parametrize(
    ("data_type", "end", "status"),
    [
        ("steps", "2025-04-01", 200),
        ("steps", "2025-04-02", 400),
        ("weight", "2025-04-01", 200),
        ("heart-rate", "2025-01-15", 200),
        ("heart-rate", "2025-01-16", 400),
        ("active-minutes", "2025-01-16", 400),
        ("total-calories", "2025-01-16", 400),
    ],
)
async def test_a_range_is_ninety_days_at_most_or_for_some_types_fourteen(
    data_type: str, end: str, status: int
) -> None:
    _, client, _ = make()

    assert (await roll_up(client, data_type, "2025-01-01", end)).status == status


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"range": {"start": civil("2025-12-01")}}, "range"),
        ({"range": {"start": civil("2025-02-30"), "end": civil("2025-03-05")}}, "range.start"),
        ({"range": {"start": civil("2025-12-02"), "end": civil("2025-12-02")}}, "range.end"),
        (
            {
                "range": {
                    "start": {**civil("2025-12-01"), "time": {"hours": 7}},
                    "end": civil("2025-12-02"),
                }
            },
            "range.start",
        ),
        ({"windowSizeDays": 7}, "windowSizeDays"),
        ({"window": 1}, "window"),
    ],
)
async def test_a_bad_request_is_refused_by_its_field(change: dict[str, object], field: str) -> None:
    _, client, _ = make()
    body = {"range": {"start": civil("2025-12-01"), "end": civil("2025-12-03")}, **change}

    answer = await client.post(f"{TYPES}/steps/dataPoints:dailyRollUp", json=body)

    assert problem(answer) == (400, "INVALID_ARGUMENT", field)


async def test_sessions_cannot_be_rolled_up() -> None:
    _, client, _ = make()

    assert problem(await roll_up(client, "exercise", "2025-12-01", "2025-12-02")) == (
        400,
        "INVALID_ARGUMENT",
        "parent",
    )
