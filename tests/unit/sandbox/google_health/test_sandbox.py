"""The sandbox as a whole: live traffic by hand, reset, and its greeting."""

import pytest

from headgate.base.errors import InvalidInput
from headgate.sandbox.google_health.world import ADDED_MAX
from tests.unit.sandbox.clients import Client
from tests.unit.sandbox.google_health.worlds import TYPES, every, make, problem


async def test_users_and_exercises_are_added_over_http() -> None:
    sandbox, client, _ = make()

    user = (await client.post("/_sandbox/users", json={"days": 30})).json()
    added = await client.post(
        "/_sandbox/exercises",
        json={
            "user": user["user"],
            "exercise_type": "TRAIL_RUN",
            "start": "2026-01-05T11:00:00Z",
            "duration_s": 60,
        },
    )
    exercises = await every(Client(sandbox, user["access_token"]), "exercise")

    assert added.status == 201
    assert exercises[0]["name"].endswith(added.json()["id"])
    assert exercises[0]["exercise"]["displayName"] == "Trail run"
    assert exercises[0]["exercise"]["interval"]["startTime"] == "2026-01-05T11:00:00Z"
    assert (await client.get("/_sandbox/stats")).json()["data"] == {
        "users": 2,
        "exercises_added": 1,
    }


async def test_exercises_are_deleted_over_http() -> None:
    sandbox, client, _ = make()
    drawn = (await every(client, "exercise"))[-1]["name"].rpartition("/")[2]
    added = str(sandbox.add_exercise().id)
    before = len(await every(client, "exercise"))

    for each in (drawn, added):
        answer = await client.send("DELETE", f"/_sandbox/exercises/{each}")
        assert (answer.status, answer.json()) == (200, {"deleted": each})

    names = [each["name"] for each in await every(client, "exercise")]
    assert len(names) == before - 2
    assert not [name for name in names if name.endswith((drawn, added))]
    for path in ("", ":exportExerciseTcx"):
        answer = await client.get(f"{TYPES}/exercise/dataPoints/{drawn}{path}")
        assert problem(answer)[:2] == (404, "NOT_FOUND")
    # Neither what is gone nor what never was can be deleted, and no id is given twice.
    for unknown in (drawn, added, "7", "2000000010000000000"):
        answer = await client.send("DELETE", f"/_sandbox/exercises/{unknown}")
        assert (answer.status, answer.json()["field"]) == (400, "id")
    assert sandbox.add_exercise().id == int(added) + 1


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("users", {"days": -1}, "days"),
        ("users", {"day": 1}, "day"),
        ("exercises", {"user": "7"}, "user"),
        ("exercises", {"user": "ada"}, "user"),
        ("exercises", {"duration_s": 0}, "duration_s"),
        ("exercises", {"distance_m": -1}, "distance_m"),
        ("exercises", {"start": "2026-01-05T11:00:00"}, "start"),
        ("exercises", {"start": "2126-01-05T11:00:00Z"}, "start"),
        ("exercises", {"title": "x"}, "title"),
    ],
)
async def test_bad_live_traffic_is_refused_by_its_field(
    path: str, body: dict[str, object], field: str
) -> None:
    sandbox, client, _ = make()

    answer = await client.post(f"/_sandbox/{path}", json=body)

    assert (answer.status, answer.json()["field"]) == (400, field)
    assert (len(sandbox.world.user_ids), sandbox.world.added) == (1, 0)


def test_a_day_is_full_at_some_point() -> None:
    sandbox, _, _ = make()
    made = {sandbox.add_exercise().id for _ in range(ADDED_MAX)}

    assert len(made) == ADDED_MAX
    with pytest.raises(InvalidInput, match="start"):
        sandbox.add_exercise()


async def test_an_exercise_can_be_added_long_before_the_history() -> None:
    _, client, _ = make(days=3)

    await client.post("/_sandbox/exercises", json={"start": "2001-01-01T00:00:00Z"})
    oldest = (await every(client, "exercise"))[-1]

    assert oldest["exercise"]["interval"]["startTime"] == "2001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("options", "field"),
    [({"users": 0}, "users"), ({"days": -1}, "days"), ({"slot_minutes": 7}, "slot_minutes")],
)
def test_sizes_that_make_no_sense_are_refused(options: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        make(**options)


def test_nobody_gets_a_token_for_a_user_that_is_not_there() -> None:
    sandbox, _, _ = make()

    with pytest.raises(InvalidInput, match="user"):
        sandbox.grant("7")


async def test_a_reset_of_the_data_keeps_the_first_users_and_their_tokens() -> None:
    sandbox, client, _ = make()
    before = await every(client, "exercise")
    sandbox.add_exercise()
    person = sandbox.add_user(days=2)
    newcomer = Client(sandbox, sandbox.grant(person.id).access_token)

    sandbox.reset()

    assert await every(client, "exercise") == before
    assert (await newcomer.get(f"{TYPES}/steps/dataPoints")).status == 401


async def test_the_greeting_holds_a_token_that_works() -> None:
    sandbox, _, _ = make()

    lines = sandbox.greeting("http://127.0.0.1:1")
    token = next(line.split()[-1] for line in lines if line.startswith("access token"))

    assert (await Client(sandbox, token).get("/v4/users/me/identity")).status == 200
