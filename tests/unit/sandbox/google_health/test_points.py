"""Listing data points: order, pages, shapes and sources, and reading one by its id."""

from datetime import date, timedelta

import pytest

from headgate.base.clock import ManualClock
from headgate.sandbox.google_health.data_types import DATA_TYPES, SLEEP
from headgate.sandbox.google_health.day import Shares
from headgate.sandbox.google_health.sandbox import GoogleHealth
from headgate.sandbox.google_health.world import NewExercise
from tests.unit.sandbox.clients import Client
from tests.unit.sandbox.google_health.worlds import START, TYPES, every, make, problem

LISTED = ("steps", "distance", "active-minutes", "heart-rate", "weight", "exercise", "sleep")


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
    elsewhere = await client.get(f"{TYPES}/sleep/dataPoints", pageToken=first["nextPageToken"])
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


async def test_a_session_is_read_by_its_name_and_nothing_else_has_one() -> None:
    _, client, _ = make()
    listed = await every(client, "sleep")

    found = await client.get(f"/v4/{listed[0]['name']}")
    missing = await client.get(f"{TYPES}/sleep/dataPoints/2000000000000000777")
    nameless = await client.get(f"{TYPES}/steps/dataPoints/1")

    assert found.json() == listed[0]
    assert problem(missing) == (404, "NOT_FOUND", "")
    assert problem(nameless) == (400, "INVALID_ARGUMENT", "name")
    assert "name" not in (await every(client, "weight"))[0]


async def test_sleep_stages_follow_each_other_and_add_up() -> None:
    _, client, _ = make()

    for point in await every(client, "sleep"):
        sleep = point["sleep"]
        stages, interval = sleep["stages"], sleep["interval"]
        ends = [stage["endTime"] for stage in stages]
        assert [stage["startTime"] for stage in stages] == [interval["startTime"], *ends[:-1]]
        assert ends[-1] == interval["endTime"]
        total = sum(int(each["minutes"]) for each in sleep["summary"]["stagesSummary"])
        assert str(total) == sleep["summary"]["minutesInSleepPeriod"]


async def test_a_data_source_family_leaves_out_the_others() -> None:
    sandbox, client, _ = make(shares=Shares(manual=0))
    made = sandbox.add_exercise(NewExercise(manual=True))
    whole = await every(client, "exercise")

    async def of(family: str) -> list[object]:
        return await every(
            client, "exercise", dataSourceFamily=f"users/me/dataSourceFamilies/{family}"
        )

    assert whole[0]["name"].endswith(str(made.id))
    assert await of("google-wearables") == whole[1:]
    assert await of("google-sources") == await of("all-sources") == whole
    assert await of("self-sources") == []
    for data_type, family in (("sleep", "all-sources"), ("exercise", "neighbours")):
        refused = await client.get(
            f"{TYPES}/{data_type}/dataPoints",
            dataSourceFamily=f"users/me/dataSourceFamilies/{family}",
        )
        assert problem(refused) == (400, "INVALID_ARGUMENT", "data_source_family")


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


async def test_an_identity_leads_to_the_same_data_and_nobody_elses() -> None:
    sandbox, client, _ = make(users=2)

    identity = (await client.get("/v4/users/me/identity")).json()
    own = await client.get(f"/v4/users/{identity['healthUserId']}/dataTypes/weight/dataPoints")
    other = await client.get(f"/v4/users/{sandbox.world.user_ids[1]}/dataTypes/weight/dataPoints")

    assert own.json()["dataPoints"] == await every(client, "weight")
    second = Client(sandbox, sandbox.grant(str(sandbox.world.user_ids[1])).access_token)
    assert await every(second, "weight") != await every(client, "weight")
    assert problem(other) == (403, "PERMISSION_DENIED", "")


async def test_sessions_are_deleted_by_their_names() -> None:
    _, client, _ = make(days=20)
    names = [point["name"] for point in await every(client, "sleep")]
    body = {"names": [names[3], names[0].replace(names[0].split("/")[1], "me")]}

    answer = await client.post(f"{TYPES}/sleep/dataPoints:batchDelete", json=body)

    assert (answer.status, answer.json()["done"]) == (200, True)
    left = [point["name"] for point in await every(client, "sleep")]
    assert left == [*names[1:3], *names[4:]]


@pytest.mark.parametrize(
    ("data_type", "names", "told"),
    [
        ("steps", ["users/me/dataTypes/steps/dataPoints/1"], "parent"),
        ("sleep", [], "names"),
        ("sleep", ["7"], "names"),
        ("sleep", ["users/me/dataTypes/exercise/dataPoints/7"], "names"),
        ("sleep", ["users/8/dataTypes/sleep/dataPoints/7"], "names"),
        ("sleep", ["users/me/dataTypes/sleep/dataPoints/x"], "names"),
        ("sleep", ["users/me/dataTypes/sleep/dataPoints/7"], ""),
        ("sleep", [7], "names[0]"),
    ],
)
async def test_a_wrong_deletion_is_refused_and_one_without_its_scope(
    data_type: str, names: list[object], told: str
) -> None:
    sandbox, client, _ = make(days=20)
    path = f"{TYPES}/{data_type}/dataPoints:batchDelete"

    answer = await client.post(path, json={"names": names})
    reader = Client(sandbox, sandbox.grant(scopes=(SLEEP,)).access_token)
    [point, *_] = await every(client, "sleep")
    of_reader = await reader.post(path, json={"names": [point["name"]]})

    found = (400, "INVALID_ARGUMENT", told) if told else (404, "NOT_FOUND", "")
    assert problem(answer) == found
    if data_type == "sleep":
        denied = (403, "PERMISSION_DENIED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT")
        assert problem(of_reader) == denied
