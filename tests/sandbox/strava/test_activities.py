"""Reading athletes and activities: order, pages, visibility, and every marked oddity."""

import pytest

from headgate_sandbox.strava.activity import Shares
from headgate_sandbox.strava.world import NewActivity
from tests.sandbox.clients import Client
from tests.sandbox.strava.worlds import epoch, make

LIST = "/api/v3/athlete/activities"
BY_HAND = {
    "name": "Treadmill",
    "sport_type": "Run",
    "start_date_local": "2026-01-05T10:00:00Z",
    "elapsed_time": "1200",
}


async def ids(client: Client, **query: object) -> list[int]:
    answer = await client.get(LIST, **query)
    assert answer.status == 200
    return [each["id"] for each in answer.json()]


async def test_pages_are_newest_first_and_end_with_an_empty_one() -> None:
    _, client, _ = make(activities=50)
    _, many, _ = make(activities=300)

    pages = [await ids(client, page=page, per_page=20) for page in (1, 2, 3, 4)]

    assert [len(page) for page in pages] == [20, 20, 10, 0]
    everything = [each for page in pages for each in page]
    assert everything == sorted(everything, reverse=True)
    assert len(set(everything)) == 50
    # A page has thirty, and at most two hundred.
    assert (len(await ids(many)), len(await ids(many, per_page=500))) == (30, 200)


async def test_after_alone_is_oldest_first_and_with_both_bounds_newest_first() -> None:
    _, client, _ = make(activities=50)
    listed = (await client.get(LIST, per_page=50)).json()
    after, before = epoch(listed[40]["start_date"]), epoch(listed[10]["start_date"])

    both = await ids(client, after=after, before=before, per_page=50)
    after_alone = await ids(client, after=after, per_page=50)
    before_alone = await ids(client, before=before, per_page=50)

    # Neither bound is part of it.
    assert both == [each["id"] for each in listed[11:40]]
    assert after_alone == [each["id"] for each in reversed(listed[:40])]
    assert before_alone == [each["id"] for each in listed[11:]]


@pytest.mark.parametrize(
    ("field", "value"), [("page", 0), ("page", "x"), ("per_page", -1), ("after", "now")]
)
async def test_a_number_that_is_none_is_a_bad_request(field: str, value: object) -> None:
    _, client, _ = make()

    answer = await client.get(LIST, **{field: value})

    assert answer.status == 400
    assert answer.json() == {
        "message": "Bad Request",
        "errors": [{"resource": "Activity", "field": field, "code": "invalid"}],
    }


async def test_what_the_token_may_not_see_leaves_a_page_short_before_the_end() -> None:
    sandbox, everyone, _ = make(activities=60, shares=Shares(private=0.5))
    few = Client(sandbox, sandbox.grant(scopes=("read", "activity:read")).access_token)

    pages = [(await few.get(LIST, page=page, per_page=30)).json() for page in (1, 2, 3)]

    assert 0 < len(pages[0]) < 30
    assert 0 < len(pages[1]) < 30
    assert pages[2] == []
    assert not any(each["private"] for page in pages[:2] for each in page)
    private = next(each for each in (await everyone.get(LIST)).json() if each["private"])
    assert (await few.get(f"/api/v3/activities/{private['id']}")).status == 404


async def test_without_the_scope_activities_are_refused_by_name() -> None:
    sandbox, everyone, _ = make()
    client = Client(sandbox, sandbox.grant(scopes=("read",)).access_token)

    answer = await client.get(LIST)

    # An athlete is shown in full to who may read the profile.
    assert (await client.get("/api/v3/athlete")).json()["resource_state"] == 2
    assert (await everyone.get("/api/v3/athlete")).json()["resource_state"] == 3
    assert answer.status == 401
    assert answer.json() == {
        "message": "Authorization Error",
        "errors": [
            {"resource": "AccessToken", "field": "activity:read_permission", "code": "missing"}
        ],
    }


async def test_one_activity_agrees_with_the_list() -> None:
    _, client, _ = make()
    listed = (await client.get(LIST)).json()[0]

    shown = (await client.get(f"/api/v3/activities/{listed['id']}")).json()

    differing = {name for name in listed if shown[name] != listed[name]}
    assert differing == {"resource_state", "map"}
    assert {"description", "calories", "laps", "segment_efforts"} <= shown.keys()


async def test_all_efforts_are_more_efforts_and_laps_cover_the_activity() -> None:
    sandbox, client, _ = make()
    activity = sandbox.add_activity(NewActivity(distance_m=21_000, elapsed_s=7_000))
    path = f"/api/v3/activities/{activity.id}"

    some = (await client.get(path)).json()
    every = (await client.get(path, include_all_efforts=True)).json()
    laps = (await client.get(f"{path}/laps")).json()
    listed = (await client.get(f"{path}/streams", keys="time")).json()

    assert 0 < len(some["segment_efforts"]) < len(every["segment_efforts"])
    assert sum(lap["elapsed_time"] for lap in laps) == 7_000
    assert sum(lap["distance"] for lap in laps) == pytest.approx(21_000)
    assert [lap["lap_index"] for lap in laps] == [1, 2, 3, 4]
    # Streams that are not keyed are a list with types.
    assert [each["type"] for each in listed] == ["time", "distance"]


async def test_a_new_activity_is_first_in_the_list_and_another_athletes_does_not_exist() -> None:
    sandbox, client, _ = make()
    other = sandbox.add_athlete(activities=1)

    added = sandbox.add_activity(NewActivity(name="Just now"))
    theirs = sandbox.add_activity(NewActivity(athlete_id=other.id))

    assert (await client.get(LIST)).json()[0]["name"] == "Just now"
    assert (await ids(client))[0] == added.id
    answer = await client.get(f"/api/v3/activities/{theirs.id}")
    assert (answer.status, answer.json()["message"]) == (404, "Resource Not Found")


async def test_streams_are_keyed_without_a_type_and_always_with_distance() -> None:
    sandbox, client, _ = make()
    path = f"/api/v3/activities/{sandbox.add_activity().id}/streams"

    keyed = (await client.get(path, keys="time,heartrate", key_by_type="true")).json()
    python = (await client.get(path, keys="time,heartrate", key_by_type=True)).json()
    bare = (await client.get(path, key_by_type="true")).json()
    unknown = (await client.get(path, keys="mood", key_by_type="true")).json()

    assert set(keyed) == {"time", "heartrate", "distance"}
    assert python == keyed
    assert set(keyed["time"]) == {"data", "series_type", "original_size", "resolution"}
    assert keyed["time"]["original_size"] == len(keyed["time"]["data"]) == 120
    assert set(bare) == set(unknown) == {"distance"}


async def test_an_activity_entered_by_hand_has_no_streams() -> None:
    _, client, _ = make(activities=100)
    listed = (await client.get(LIST, per_page=100)).json()
    by_hand = [each["id"] for each in listed if each["manual"]]

    answer = await client.get(f"/api/v3/activities/{by_hand[0]}/streams", keys="time")

    assert 0 < len(by_hand) < 30
    assert answer.status == 404
    assert answer.json() == {"message": "Resource Not Found", "errors": []}


async def test_an_activity_of_which_nothing_was_measured_has_no_streams_either() -> None:
    sandbox, client, _ = make(activities=100, shares=Shares(manual=0, unmeasured=0.3))
    added = sandbox.add_activity(NewActivity(measured=False))
    listed = (await client.get(LIST, per_page=101)).json()

    answers = [
        await client.get(f"/api/v3/activities/{each['id']}/streams", keys="time")
        for each in listed[:40]
    ]

    assert listed[0]["id"] == added.id and not any(each["manual"] for each in listed)
    assert answers[0].json() == {"message": "Resource Not Found", "errors": []}
    assert 4 < sum(answer.status == 404 for answer in answers) < 25


async def test_creating_by_hand_makes_a_new_one_each_time() -> None:
    _, client, _ = make()
    form = {**BY_HAND, "distance": 3_000}
    made = [await client.post("/api/v3/activities", form=form) for _ in range(2)]

    assert [answer.status for answer in made] == [201, 201]
    first, second = (answer.json() for answer in made)
    assert first["id"] != second["id"]
    assert (first["manual"], first["start_date_local"]) == (True, "2026-01-05T10:00:00Z")
    assert (await client.get(f"/api/v3/activities/{first['id']}/streams")).status == 404


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"name": ""}, "name", "missing"),
        ({"sport_type": ""}, "sport_type", "missing"),
        ({"elapsed_time": ""}, "elapsed_time", "missing"),
        ({"elapsed_time": "long"}, "elapsed_time", "invalid"),
        ({"elapsed_time": "nan"}, "elapsed_time", "invalid"),
        ({"elapsed_time": "0"}, "elapsed_time", "invalid"),
        ({"start_date_local": "0001-01-01T00:00:00Z"}, "start_date_local", "invalid"),
        ({"start_date_local": "9999-12-31T23:00:00Z"}, "start_date_local", "invalid"),
        ({"start_date_local": "today"}, "start_date_local", "invalid"),
        ({"distance": "-1"}, "distance", "invalid"),
    ],
)
async def test_a_bad_activity_is_refused_by_its_field(
    change: dict[str, str], field: str, code: str
) -> None:
    sandbox, client, _ = make()
    answer = await client.post("/api/v3/activities", form={**BY_HAND, **change})

    assert answer.status == 400
    assert answer.json()["errors"] == [{"resource": "Activity", "field": field, "code": code}]
    assert sandbox.world.archive(sandbox.world.athlete_ids[0]).size == 50


async def test_creating_needs_the_scope_to_write() -> None:
    sandbox, _, _ = make()
    client = Client(sandbox, sandbox.grant(scopes=("activity:read_all",)).access_token)

    answer = await client.post("/api/v3/activities", form={"name": "x"})

    [error] = answer.json()["errors"]
    assert (answer.status, error["field"]) == (401, "activity:write_permission")
