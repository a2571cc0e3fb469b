"""The API for schedules: plans, runs, pauses and history, for admins."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from headgate import Chunk, Context, Schedule, Sync, Terminal
from tests.web.callers import Client, Served, on_server, problem
from tests.worlds import START, ScriptedSource, as_test, lanes

NIGHTLY = Schedule(name="nightly", sync="notes", cron="0 2 * * *")
FRESH = Schedule(name="fresh", sync="notes", fresh_within="24h")


async def read(ctx: Context) -> Chunk:
    if ctx.user_id == "eve":
        raise Terminal("no")
    return Chunk(records=[])


def scheduled(
    folder: Path, main: Callable[[Served, Client], Awaitable[None]], **parts: Any
) -> None:
    """Run `main` with two schedules, three users, and an admin's client."""

    async def run(served: Served) -> None:
        for name in ("ada", "bob", "eve"):
            await served.app.users.seen(name)
        await served.app.users.pause("bob", by="support")
        await main(served, await served.admin())

    sync = Sync(name="notes", source=ScriptedSource(read))
    given = {"schedules": [NIGHTLY, FRESH], "systems": (), "worker": lanes(lease_s=3600)}
    on_server(folder, run, sync, **{**given, **parts})


with_schedules = as_test(scheduled, gives=2)


async def get(client: Client, path: str, **query: Any) -> Any:
    answer = await client.get(f"/v1/schedules{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def post(client: Client, path: str, body: Any = None, *, status: int = 200) -> Any:
    answer = await client.post(f"/v1/schedules{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@with_schedules
async def test_schedules_are_listed_and_shown(served: Served, admin: Client) -> None:
    listed = (await get(admin, ""))["data"]
    assert [each["name"] for each in listed] == ["nightly", "fresh"]
    shown = await get(admin, "/nightly")
    assert shown["description"] == "At 02:00 every day"
    assert shown["next_runs"][0] == "2026-01-01T02:00:00Z"
    assert len(shown["next_runs"]) == 5
    assert shown["message"] == "It begins when a worker starts."
    assert (shown["stagger_s"], shown["active_within_s"]) == (120.0, 2592000.0)
    problem(await admin.get("/v1/schedules/weekly"), 404, "not_found")


@with_schedules
async def test_a_plan_starts_nothing_and_a_run_does(served: Served, admin: Client) -> None:
    plan = await get(admin, "/nightly/plan", now="true")
    assert [each["user_id"] for each in plan["starts"]] == ["ada", "eve"]
    assert plan["skipped"] == {"user_paused": 1}
    assert plan["skips"][0]["message"] == "the user is paused: resume the user"
    later = await get(admin, "/nightly/plan", limit=1)
    assert (later["tick"], len(later["starts"])) == ("2026-01-01T02:00:00Z", 1)
    report = (await get(admin, "/fresh/plan"))["freshness"]
    assert (report["users"], report["stale_count"]) == (2, 2)
    assert await served.app.jobs.list() == []

    tick = await post(admin, "/nightly/run", status=202)

    assert (tick["kind"], tick["queued"], tick["skipped"]) == ("manual", 2, 1)
    assert tick["asked_by"].startswith("for a test (")
    assert len(await served.app.jobs.list()) == 2


@with_schedules
async def test_a_schedule_is_paused_with_a_reason_and_resumed(
    served: Served, admin: Client
) -> None:
    paused = await post(admin, "/nightly/pause", {"reason": "maintenance"})
    assert paused["paused"]["reason"] == "maintenance"
    assert paused["paused"]["by"].startswith("for a test (")
    assert paused["next_tick_at"] is None
    resumed = await post(admin, "/nightly/resume")
    assert (resumed["paused"], resumed["next_tick_at"]) == (None, "2026-01-01T02:00:00Z")
    assert (await post(admin, "/nightly/pause"))["paused"]["reason"] is None
    answer = await admin.post("/v1/schedules/nightly/pause", json={"reason": ""})
    assert problem(answer, 422, "invalid_input")["field"] == "reason"


@as_test(scheduled, schedules=[NIGHTLY], gives=2)
async def test_history_tells_the_days_the_ticks_and_who_keeps_failing(
    served: Served, admin: Client
) -> None:
    worker = served.app.supervisor()
    await worker.start()
    await served.clock.sleep(timedelta(days=2, hours=12).total_seconds())
    await worker.stop()

    history = await get(admin, "/nightly/history")
    assert len(history["days"]) == 7
    assert history["days"][0] == {
        "day": "2026-01-03",
        "ticks": 1,
        "queued": 2,
        "skipped": 1,
        "succeeded": 1,
        "failed": 1,
        "cancelled": 0,
        "active": 0,
    }
    assert history["failing_users"] == [{"user_id": "eve", "failures": 3}]
    first = await get(admin, "/nightly/ticks", limit=2)
    rest = await get(admin, "/nightly/ticks", limit=2, after=first["next_cursor"])
    ticks = [each["tick"] for each in (*first["data"], *rest["data"])]
    assert ticks == [f"2026-01-0{day}T02:00:00Z" for day in (3, 2, 1)]
    assert rest["next_cursor"] is None
    users = await get(admin, f"/nightly/ticks/{ticks[0]}/users", limit=2)
    more = await get(admin, f"/nightly/ticks/{ticks[0]}/users", limit=2, after=users["next_cursor"])
    told = [(each["user_id"], each["reason"]) for each in (*users["data"], *more["data"])]
    assert told == [("ada", None), ("bob", "user_paused"), ("eve", None)]
    [bob] = (await get(admin, f"/nightly/ticks/{ticks[0]}/users", reason="user_paused"))["data"]
    assert bob["message"] == "the user is paused: resume the user"
    unknown = await admin.get(f"/v1/schedules/nightly/ticks/{START.isoformat()}/users")
    problem(unknown, 404, "not_found")
