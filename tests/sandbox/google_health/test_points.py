"""Listing data points: order, pages, shapes and sources, and reading one by its id."""

from datetime import date, timedelta

import pytest

from headgate.base.clock import ManualClock
from headgate_sandbox.google_health.data_types import DATA_TYPES
from headgate_sandbox.google_health.day import Shares
from headgate_sandbox.google_health.sandbox import GoogleHealth
from tests.sandbox.clients import Client
from tests.sandbox.google_health.worlds import START, TYPES, every, make, problem

LISTED = ("steps", "distance", "active-minutes", "heart-rate", "weight", "exercise")


def start_of(point: dict[str, dict[str, dict[str, str]]], data_type: str) -> str:
    value = point[DATA_TYPES[data_type].key]
    if "interval" in value:
        return value["interval"]["startTime"]
    return value["sampleTime"]["physicalTime"]


@pytest.mark.parametrize("data_type", LISTED)
async def test_every_point_is_listed_once_newest_first_whatever_the_page_size(
    data_type: str,
) -> None:
    _, client, _ = make(days=40, slot_minutes=60)

    whole = await every(client, data_type)
    in_pages = await every(client, data_type, pageSize=7)

    starts = [start_of(point, data_type) for point in whole]
    assert whole == in_pages
    assert len(set(starts)) == len(starts) > 5
    assert starts == sorted(starts, reverse=True)


async def test_a_page_holds_no_more_than_the_type_allows() -> None:
    _, client, _ = make(days=300)

    for data_type, sizes in (("steps", [1_440, 3, 10_000]), ("exercise", [25, 3, 25])):
        for asked, size in zip((0, 3, 20_000), sizes, strict=True):
            answer = await client.get(f"{TYPES}/{data_type}/dataPoints", pageSize=asked)
            assert len(answer.json()["dataPoints"]) == size


async def test_some_days_are_empty_and_about_half_have_exercises() -> None:
    _, client, _ = make(days=400, slot_minutes=60, shares=Shares(empty=0.2))

    def days(points: list[dict[str, dict[str, dict[str, str]]]], data_type: str) -> int:
        return len({start_of(point, data_type)[:10] for point in points})

    walked = days(await every(client, "steps", pageSize=10_000), "steps")
    trained = days(await every(client, "exercise"), "exercise")

    assert 290 < walked < 350
    assert 0.4 < trained / walked < 0.6


async def test_a_page_token_survives_what_is_added_and_fits_only_its_own_request() -> None:
    sandbox, client, _ = make()
    before = await every(client, "exercise")
    path = f"{TYPES}/exercise/dataPoints"

    first = (await client.get(path, pageSize=2)).json()
    sandbox.add_exercise()
    second = (await client.get(path, pageSize=2, pageToken=first["nextPageToken"])).json()
    elsewhere = await client.get(f"{TYPES}/steps/dataPoints", pageToken=first["nextPageToken"])
    made_up = await client.get(path, pageToken="nonsense")

    assert first["dataPoints"] + second["dataPoints"] == before[:4]
    assert problem(elsewhere) == problem(made_up) == (400, "INVALID_ARGUMENT", "page_token")


async def test_the_history_grows_by_a_day_at_midnight() -> None:
    clock = ManualClock(START)
    sandbox = GoogleHealth(clock, days=3, shares=Shares(empty=0))
    client = Client(sandbox, sandbox.grant().access_token)

    async def newest() -> date:
        page = (await client.get(f"{TYPES}/steps/dataPoints", pageSize=1)).json()
        day = page["dataPoints"][0]["steps"]["interval"]["civilStartTime"]["date"]
        return date(day["year"], day["month"], day["day"])

    before = await newest()
    clock.advance(2 * 86_400)
    client.token = sandbox.grant().access_token

    assert await newest() - before == timedelta(days=2)


async def test_an_exercise_is_read_by_its_name_and_nothing_else_has_one() -> None:
    _, client, _ = make()
    listed = await every(client, "exercise")

    found = await client.get(f"/v4/{listed[0]['name']}")
    missing = await client.get(f"{TYPES}/exercise/dataPoints/2000000000000000777")
    nameless = await client.get(f"{TYPES}/steps/dataPoints/1")

    assert found.json() == listed[0]
    assert problem(missing) == (404, "NOT_FOUND", "")
    assert problem(nameless) == (400, "INVALID_ARGUMENT", "name")
    assert "name" not in (await every(client, "weight"))[0]


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        (f"{TYPES}/moonlight/dataPoints", {}, "parent"),
        (f"{TYPES}/total-calories/dataPoints", {}, "parent"),
        (f"{TYPES}/steps/dataPoints", {"pageSize": -1}, "page_size"),
        (f"{TYPES}/steps/dataPoints", {"pageSize": "many"}, "page_size"),
        (f"{TYPES}/steps/dataPoints", {"limit": 3}, "limit"),
    ],
)
async def test_a_bad_argument_is_refused_by_its_field(
    path: str, query: dict[str, object], field: str
) -> None:
    _, client, _ = make()

    assert problem(await client.get(path, **query)) == (400, "INVALID_ARGUMENT", field)


async def test_everybody_has_data_of_their_own_which_nobody_else_reads() -> None:
    sandbox, client, _ = make(users=2)
    first, second = map(str, sandbox.world.user_ids)
    other = Client(sandbox, sandbox.grant(second).access_token)

    own = await client.get(f"/v4/users/{first}/dataTypes/weight/dataPoints")
    refused = await client.get(f"/v4/users/{second}/dataTypes/weight/dataPoints")

    assert own.json()["dataPoints"] == await every(client, "weight")
    assert await every(other, "weight") != await every(client, "weight")
    assert problem(refused) == (403, "PERMISSION_DENIED", "")
