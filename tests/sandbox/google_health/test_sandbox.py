"""The sandbox as a whole: live traffic by hand, reset, and its greeting."""

import pytest

from headgate.base.errors import InvalidInput
from headgate_sandbox.google_health.world import ADDED_MAX
from tests.sandbox.clients import Client
from tests.sandbox.google_health.worlds import TYPES, every, make, problem


async def test_users_and_exercises_are_added_over_http() -> None:
    sandbox, client, _ = make()

    user = (await client.post("/_sandbox/users", json={"days": 30})).json()
    run = {"exercise_type": "TRAIL_RUN", "start": "2026-01-05T11:00:00Z", "duration_s": 60}
    added = await client.post("/_sandbox/exercises", json={"user": user["user"], **run})
    newcomer = Client(sandbox, user["access_token"])
    exercises = await every(newcomer, "exercise")

    assert added.status == 201
    assert exercises[0]["name"].endswith(added.json()["id"])
    assert exercises[0]["exercise"]["displayName"] == "Trail run"
    assert exercises[0]["exercise"]["interval"]["startTime"] == "2026-01-05T11:00:00Z"
    stats = (await client.get("/_sandbox/stats")).json()
    assert stats["data"] == {"users": 2, "exercises_added": 1}
    # Of somebody without a history there is an empty object.
    empty = Client(sandbox, sandbox.grant(sandbox.add_user(days=0).id).access_token)
    answer = await empty.get(f"{TYPES}/steps/dataPoints")
    assert (answer.status, answer.json()) == (200, {})
    sandbox.reset()
    assert (await newcomer.get(f"{TYPES}/steps/dataPoints")).status == 401


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


async def test_an_exercise_can_be_added_long_before_the_history_but_a_day_is_full() -> None:
    sandbox, client, _ = make(days=3)

    await client.post("/_sandbox/exercises", json={"start": "2001-01-01T00:00:00Z"})
    oldest = (await every(client, "exercise"))[-1]
    assert oldest["exercise"]["interval"]["startTime"] == "2001-01-01T00:00:00Z"

    made = {sandbox.add_exercise().id for _ in range(ADDED_MAX)}
    assert len(made) == ADDED_MAX
    with pytest.raises(InvalidInput, match="start"):
        sandbox.add_exercise()
