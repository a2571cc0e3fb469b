"""From what Google shows to what is remembered: nothing made up, nonsense refused."""

from datetime import date
from typing import Any

import msgspec
import pytest

from headgate import Malformed
from headgate.connectors.fitbit.shapes import (
    ExercisePoint,
    RollupPage,
    exercise_data,
    summary_data,
)

DAY = date(2026, 1, 5)
NAME = "users/1000000001/dataTypes/exercise/dataPoints/2000000000020452000"
INTERVAL = {
    "startTime": "2026-01-05T06:30:00Z",
    "startUtcOffset": "19800s",
    "endTime": "2026-01-05T07:00:30.250Z",
    "endUtcOffset": "19800s",
}


def point(**exercise: Any) -> ExercisePoint:
    shown = {
        "name": exercise.pop("name", NAME),
        "dataSource": exercise.pop("dataSource", {}),
        "exercise": {"interval": INTERVAL, "exerciseType": "RUNNING", **exercise},
        "unknown": {"fields": "are fine"},
    }
    return msgspec.convert(shown, ExercisePoint)


def test_a_full_exercise_is_remembered_in_plain_units() -> None:
    full = point(
        displayName="Run",
        activeDuration="1800.5s",
        exerciseMetadata={"hasGps": True},
        metricsSummary={
            "caloriesKcal": 255.5,
            "distanceMillimeters": 5_000_250,
            "elevationGainMillimeters": 12_000.0,
            "steps": "6250",
            "averageHeartRateBeatsPerMinute": "140",
        },
        dataSource={"recordingMethod": "MANUAL", "device": {"displayName": "Charge 6"}},
    )

    assert exercise_data(full) == {
        "source": "fitbit",
        "id": "2000000000020452000",
        "type": "RUNNING",
        "name": "Run",
        "started_at": "2026-01-05T06:30:00Z",
        "ended_at": "2026-01-05T07:00:30.250000Z",
        "utc_offset_s": 19800,
        "active_s": 1800.5,
        "has_gps": True,
        "manual": True,
        "device": "Charge 6",
        "calories_kcal": 255.5,
        "distance_m": 5000.25,
        "climb_m": 12.0,
        "steps": 6250,
        "average_heart_rate": 140,
    }


def test_what_google_leaves_out_is_left_out() -> None:
    assert exercise_data(point()) == {
        "source": "fitbit",
        "id": "2000000000020452000",
        "type": "RUNNING",
        "name": "",
        "started_at": "2026-01-05T06:30:00Z",
        "ended_at": "2026-01-05T07:00:30.250000Z",
        "utc_offset_s": 19800,
        "active_s": 0.0,
        "has_gps": False,
        "manual": False,
    }


def test_a_name_of_the_users_own_is_made_safe_to_store() -> None:
    data = exercise_data(point(displayName="my\x00 run\n" + "x" * 500))

    assert str(data["name"]).startswith("my runx")
    assert len(str(data["name"])) == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "users/me/dataTypes/exercise/dataPoints/"},
        {"name": "users/me/dataTypes/exercise/dataPoints/..%2F..%2Fother"},
        {"activeDuration": "half an hour"},
        {"activeDuration": "1e400s"},
        {"metricsSummary": {"steps": "many"}},
        {"metricsSummary": {"steps": "9" * 30}},
        {"metricsSummary": {"steps": "²"}},
    ],
)
def test_nonsense_is_malformed(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        exercise_data(point(**wrong))


# ---- the sums of a day -------------------------------------------------------------------------


def page(*values: dict[str, Any], day: date = DAY) -> RollupPage:
    start = {"date": {"year": day.year, "month": day.month, "day": day.day}, "time": {}}
    points = [{"civilStartTime": start, "civilEndTime": start, **each} for each in values]
    return msgspec.convert({"rollupDataPoints": points} if points else {}, RollupPage)


def test_the_sums_of_every_type_make_one_summary() -> None:
    beats = {"Avg": 79.6, "Min": 59, "Max": 121}
    light = {"activityLevel": "LIGHT", "activeMinutesSum": "160"}
    minutes = [light, {"activityLevel": "VIGOROUS"}]
    found = [
        page({"steps": {"countSum": "10696"}}),
        page({"distance": {"millimetersSum": "7701120"}}),
        page({"totalCalories": {"kcalSum": 2011.84}}),
        page({"heartRate": {f"beatsPerMinute{name}": value for name, value in beats.items()}}),
        page({"activeMinutes": {"activeMinutesRollupByActivityLevel": minutes}}),
        page({"weight": {"weightGramsAvg": 71_250.5}}),
    ]

    summary = summary_data(each for page in found if (each := page.of(DAY)))

    assert summary == {
        "steps": 10696,
        "distance_m": 7701.12,
        "calories_kcal": 2011.84,
        "heart_rate": {"average": 79.6, "least": 59.0, "most": 121.0},
        "active_minutes": {"light": 160, "vigorous": 0},
        "weight_kg": 71.251,
    }


def test_a_type_without_data_says_nothing_but_a_sum_of_zero_is_a_sum() -> None:
    assert page().of(DAY) is None
    # Another day's sums are not taken for this one's.
    assert page({"steps": {"countSum": "5"}}, day=date(2026, 1, 4)).of(DAY) is None
    assert summary_data([]) == {}
    empty = page({"heartRate": {}, "activeMinutes": {}, "weight": {}}).of(DAY)
    assert empty is not None
    assert summary_data([empty]) == {}
    zero = page({"steps": {}}).of(DAY)
    assert zero is not None
    assert summary_data([zero]) == {"steps": 0}
