"""Users over the API: an owner's key is for that user, an admin's for all."""

import json
from datetime import timedelta
from typing import Any

import pytest

from headgate.flow.users import erasure as erase_user
from headgate.flow.users.erasure import UserData
from headgate.web.api import users as users_api
from tests.web.callers import Served, problem, start, with_server

DEFAULTS = {"frequency": "daily", "time": None, "zone": "UTC", "email": None, "notify": True}


@with_server
async def test_a_user_is_seen_and_got_with_everything(served: Served) -> None:
    ada = await served.client()
    told = problem(await ada.get("/v1/users/ada"), 404, "not_found")
    assert "there is no user 'ada'" in told["detail"]

    seen = await ada.post("/v1/users/ada/seen")

    assert seen.status_code == 200, seen.text
    now = seen.json()["created_at"]
    assert seen.json() == {
        "id": "ada",
        "plan": None,
        "last_login_at": now,
        "preferences": DEFAULTS,
        "paused_at": None,
        "paused_by": None,
        "pause_reason": None,
        "created_at": now,
        "updated_at": now,
    }
    got = await ada.get("/v1/users/ada")
    assert got.json() == seen.json()
    # An admin's list has them in the order of their ids, each as it is told alone.
    admin = await served.admin()
    await admin.post("/v1/users/aaron/seen")
    await admin.post("/v1/users/bob/seen")
    listed = (await admin.get("/v1/users")).json()["data"]
    assert [each["id"] for each in listed] == ["aaron", "ada", "bob"]
    assert listed[1] == got.json()


@with_server
async def test_only_saying_so_is_a_login_and_no_other_request(served: Served) -> None:
    # Given a user who was here two hours ago
    admin, ada = await served.admin(), await served.client()
    first = (await admin.post("/v1/users/ada/seen")).json()["last_login_at"]
    await served.clock.sleep(timedelta(hours=2).total_seconds())

    # When programs do everything else with the keys
    job_id = (await start(ada))["id"]
    for client in (admin, ada):
        for path in ("/v1/users/ada", "/v1/jobs", f"/v1/jobs/{job_id}", "/v1/items"):
            assert (await client.get(path)).status_code == 200
        await client.patch("/v1/users/ada/preferences", json={"time": "06:30"})
        await client.post("/v1/users/ada/pause")
        await client.post("/v1/users/ada/resume")
        await client.post(f"/v1/jobs/{job_id}/link", json={})
    await admin.put("/v1/users/ada", json={"plan": "premium"})

    # Then that was no visit, and saying so is one, once an hour
    assert (await ada.get("/v1/users/ada")).json()["last_login_at"] == first
    second = (await ada.post("/v1/users/ada/seen")).json()["last_login_at"]
    assert second > first
    await served.clock.sleep(60)
    assert (await ada.post("/v1/users/ada/seen")).json()["last_login_at"] == second


@with_server
async def test_preferences_change_field_by_field(served: Served) -> None:
    ada = await served.client()
    path = "/v1/users/ada/preferences"
    wanted = {
        "frequency": "weekly",
        "time": "06:30",
        "zone": "Europe/Vienna",
        "email": "ada@example.org",
        "notify": False,
    }

    for field, value in wanted.items():
        answer = await ada.patch(path, json={field: value})
        assert answer.json()["preferences"][field] == value, answer.text

    assert (await ada.get("/v1/users/ada")).json()["preferences"] == wanted
    await ada.patch(path, json={"time": None, "email": None})
    untouched = await ada.patch(path, json={})
    assert untouched.json()["preferences"] == {**wanted, "time": None, "email": None}


#: What is wrong, and the field of it.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"frequency": "hourly"}, "frequency"),
    ({"frequency": None}, "frequency"),
    ({"time": "25:00"}, "time"),
    ({"time": "06:30:00"}, "time"),
    ({"zone": "Mars/Olympus"}, "zone"),
    ({"zone": "../../etc/passwd"}, "zone"),
    ({"zone": None}, "zone"),
    ({"email": "ada"}, "email"),
    ({"email": "ada@example.org\r\nBcc: eve@example.org"}, "email"),
    ({"notify": "no"}, "notify"),
    ({"notify": None}, "notify"),
    ({"paused": True}, "paused"),
]


@with_server
async def test_a_wrong_preference_is_named_and_changes_nothing(served: Served) -> None:
    ada = await served.client()
    await ada.post("/v1/users/ada/seen")
    good = {"frequency": "monthly", "time": "07:00"}
    for body, field in WRONG:
        answer = await ada.patch("/v1/users/ada/preferences", json={**good, **body})

        assert problem(answer, 422, "invalid_input")["field"] == field, body
        assert (await ada.get("/v1/users/ada")).json()["preferences"] == DEFAULTS


@with_server
async def test_a_pause_says_who_to_operators_and_why_to_all(served: Served) -> None:
    admin, ada = await served.admin(), await served.client()
    await ada.post("/v1/users/ada/seen")

    paused = (await admin.post("/v1/users/ada/pause", json={"reason": "on holiday"})).json()
    again = (await ada.post("/v1/users/ada/pause")).json()

    assert paused["paused_at"] is not None
    key_id = (await served.keys.list())[0].id
    assert paused["paused_by"] == f"for a test ({key_id})"
    # The first pause stays. A user's key learns why, and not who.
    assert again == {**paused, "paused_by": None}
    assert again["pause_reason"] == "on holiday"
    # It does not stop what somebody starts.
    assert (await start(ada))["state"] == "pending"

    resumed = (await ada.post("/v1/users/ada/resume")).json()
    assert [resumed[name] for name in ("paused_at", "pause_reason")] == [None, None]
    assert (await ada.post("/v1/users/ada/resume")).json() == resumed


@with_server
async def test_a_pause_of_somebody_unknown_is_not_found(served: Served) -> None:
    admin = await served.admin()

    for verb in ("pause", "resume"):
        problem(await admin.post(f"/v1/users/adda/{verb}"), 404, "not_found")
    answer = await admin.post("/v1/users/adda/pause", json={"reason": "x" * 201})
    assert problem(answer, 422, "invalid_input")["field"] == "reason"
    assert await served.app.users.list() == []


# ---- exporting and erasing ---------------------------------------------------------------------


@with_server
async def test_an_admin_exports_a_user_and_erases_them(served: Served) -> None:
    admin, ada = await served.admin(), await served.client()
    await start(ada)
    await ada.post("/v1/users/ada/seen")

    exported = await admin.get("/v1/users/ada/export")
    erased = await admin.delete("/v1/users/ada")

    assert exported.status_code == 200, exported.text
    assert exported.headers["content-type"].startswith("application/jsonl")
    lines = [json.loads(line) for line in exported.text.splitlines()]
    assert {"user", "job", "job_event", "api_key"} <= {line["type"] for line in lines}
    told = erased.json()
    assert erased.status_code == 200, erased.text
    assert (told["finished"], told["unrevoked"]) == (True, [])
    assert told["deleted"]["job"] == 1
    problem(await admin.get("/v1/users/ada"), 404, "not_found")
    # Their own keys went with them.
    problem(await ada.get("/v1/users/ada"), 401, "unauthorized")
    assert (await admin.get("/v1/users/ada/export")).text == ""
    again = (await admin.delete("/v1/users/ada")).json()
    assert (again["finished"], again["deleted"]) == (True, {})
    # What is wrong is told before the first line is sent.
    problem(await admin.get("/v1/users/a%E2%80%8Bb/export"), 422, "invalid_input")


@with_server
async def test_of_a_large_erasure_the_workers_do_the_rest(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase_user, "BATCH_MAX", 1)
    monkeypatch.setattr(users_api, "ERASED_AT_ONCE", 2)

    admin, ada = await served.admin(), await served.client()
    await start(ada)

    told = (await admin.delete("/v1/users/ada")).json()

    assert (told["finished"], sum(told["deleted"].values())) == (False, 2)
    while await UserData(served.app._runtime).go_on():
        pass
    again = (await admin.delete("/v1/users/ada")).json()
    assert (again["finished"], again["deleted"]) == (True, {})
