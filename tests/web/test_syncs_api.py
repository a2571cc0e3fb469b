"""Starting a job of any mode that a sync declares, under /v1/syncs."""

from datetime import UTC, datetime
from typing import Any

from headgate import Chunk, Context, Mode, Record, Sync, paid_history
from headgate.types import JobParams
from tests.web.callers import DAYS, Served, on_server, problem, serving
from tests.worlds import ScriptedSource, World, as_test

PATH = "/v1/syncs/notes/jobs"


def notes(modes: tuple[Mode, ...] = tuple(Mode)) -> Sync:
    async def read(ctx: Context) -> Chunk:
        return Chunk(records=[Record(f"{ctx.mode}:{ctx.day}", {"limit": ctx.limit})])

    return Sync(name="notes", source=ScriptedSource(read, "watch"), modes=modes)


#: What is asked for, and what it becomes.
MODES: list[tuple[dict[str, Any], JobParams]] = [
    ({}, JobParams()),
    ({"mode": "full"}, JobParams()),
    ({"mode": "since"}, JobParams()),
    (
        {"mode": "since", "since": "2025-11-01T02:00:00+02:00"},
        JobParams(since=datetime(2025, 11, 1, tzinfo=UTC)),
    ),
    ({"mode": "limit", "limit": 20}, JobParams(limit=20)),
    ({"mode": "history", **DAYS}, JobParams()),
    ({"mode": "history", **DAYS, "reprocess": "all"}, JobParams()),
]


@as_test(serving, notes(), gives=2)
async def test_every_mode_is_started_and_done(world: World, served: Served) -> None:
    started = []
    for number, (body, params) in enumerate(MODES):
        user = f"user-{number}"
        client = await served.client(user_id=user)

        answer = await client.post(PATH, json=body)

        told = answer.json()
        assert answer.status_code == 202, answer.text
        assert answer.headers["location"] == f"/v1/jobs/{told['id']}"
        assert told == (await client.get(answer.headers["location"])).json()
        assert (told["sync"], told["mode"]) == ("notes", body.get("mode", "full"))
        assert (told["user_id"], told["connection_id"]) == (user, user)
        assert (await served.app.jobs.get(told["id"])).params == params
        started.append(told["id"])
        other = problem(await client.post(PATH, json={}), 409, "active_job_exists")
        assert other["job_id"] == told["id"]
    await served.app.supervisor().start()
    ended = [await world.until(served.app, each) for each in started]
    assert {each.state for each in ended} == {"success"}


#: What is wrong, and the field of it.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"mode": "some"}, "mode"),
    ({"mode": "limit"}, "limit"),
    ({"mode": "limit", "limit": 0}, "limit"),
    ({"mode": "limit", "limit": "20"}, "limit"),
    ({"mode": "limit", "limit": 2.0}, "limit"),
    ({"mode": "limit", "limit": True}, "limit"),
    ({"mode": "since", "since": 1_700_000_000}, "since"),
    ({"mode": "since", "since": "2025-11-01T00:00:00"}, "since"),
    ({"mode": "since", "since": "2099-01-01T00:00:00Z"}, "since"),
    ({"mode": "full", "since": "2025-11-01T00:00:00Z"}, "since"),
    ({"mode": "history"}, "start_date"),
    ({"mode": "history", "start_date": 0, "end_date": "2025-12-01"}, "start_date"),
    ({"mode": "history", "start_date": "2025-12-10", "end_date": "2025-12-01"}, "end_date"),
    ({"mode": "full", **DAYS}, "start_date"),
    ({"mode": "full", "reprocess": "all"}, "reprocess"),
    ({"connection_id": "bob"}, "connection_id"),
    ({"destination_connection_id": "x"}, "destination_connection_id"),
    *(({field: 1}, field) for field in ("lane", "key", "options", "delay_s", "sync")),
]


@as_test(on_server, notes())
async def test_a_wrong_field_is_named_and_nothing_is_started(served: Served) -> None:
    client = await served.client()
    for body, field in WRONG:
        told = problem(await client.post(PATH, json=body), 422, "invalid_input")
        assert told["field"] == field, body
    assert await served.app.jobs.list() == []


@as_test(on_server, notes((Mode.SINCE, Mode.LIMIT)))
async def test_a_mode_that_the_sync_does_not_declare_is_refused(served: Served) -> None:
    answer = await (await served.client()).post(PATH, json={"mode": "full"})

    told = problem(answer, 422, "invalid_input")
    assert told["field"] == "mode" and "since, limit" in told["detail"]


@as_test(on_server, notes())
async def test_an_unknown_sync_is_answered_with_those_there_are(served: Served) -> None:
    answer = await (await served.client()).post("/v1/syncs/other/jobs", json={})

    assert "registered: 'notes'" in problem(answer, 422, "unknown_sync")["detail"]


@as_test(on_server, notes(), entitlement=paid_history)
async def test_a_plan_that_does_not_include_the_mode_is_refused(served: Served) -> None:
    client = await served.client()

    answer = await client.post(PATH, json={"mode": "history", **DAYS})
    problem(answer, 402, "plan_required")
    assert (await client.post(PATH, json={"mode": "full"})).status_code == 202
