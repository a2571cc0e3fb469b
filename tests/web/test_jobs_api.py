"""Jobs under /v1: starting, forecasting, following, steering, and what a free plan gets."""

from typing import Any

from headgate import (
    AuthExpired,
    Budget,
    Chunk,
    Context,
    Limit,
    Malformed,
    RetryPolicy,
    Sync,
    paid_history,
)
from headgate.model.forecast import DayCost
from tests.web.callers import (
    DAYS,
    Served,
    history,
    on_every_system,
    on_server,
    problem,
    read_day,
    start,
    with_every_system,
    with_server,
)
from tests.worlds import as_test


def budgeted() -> Sync:
    """A sync that knows what a day costs."""
    sync = history(day_costs=[DayCost(provider="fitbit", least=1, most=2)])
    sync.source.budget = Budget("fitbit", [Limit(150, per="hour", reserve=30)])  # type: ignore[attr-defined]
    return Sync(name="fitbit-days", source=sync.source, modes=sync.modes, day_costs=sync.day_costs)


# ---- starting ----------------------------------------------------------------------------------


@with_server
async def test_a_job_is_started_and_told_whole(served: Served) -> None:
    client = await served.client()

    answer = await client.post("/v1/jobs", json={"source": "fitbit", **DAYS})

    told = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/jobs/{told['id']}"
    assert told == (await client.get(answer.headers["location"])).json()
    assert (told["user_id"], told["connection_id"], told["sync"]) == ("ada", "ada", "fitbit-days")
    assert told["progress"] == {"done": 0, "total": 10, "at": "2025-12-10", "items": None}
    assert (await served.app.jobs.get(told["id"])).user_id == "ada"


@as_test(on_server, budgeted())
async def test_a_forecast_starts_nothing(served: Served) -> None:
    client = await served.client()

    answer = await client.post("/v1/jobs", json={"source": "fitbit", **DAYS, "dry_run": True})

    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["days"], told["days_held"]) == (10, 0)
    assert told["requests"] == [{"provider": "fitbit", "least": 10, "most": 20}]
    [left] = told["left_for_live"]
    assert (left["provider"], left["limit"], left["amount"]) == ("fitbit", "hour", 150)
    assert told["finish"]["earliest"] <= told["finish"]["latest"]
    assert await served.app.jobs.list() == []


@with_server
async def test_the_same_import_is_not_started_twice(served: Served) -> None:
    client = await served.client()
    first = await start(client)

    again = await client.post("/v1/jobs", json={"source": "fitbit", **DAYS})

    told = problem(again, 409, "active_job_exists")
    assert (told["job_id"], told["retryable"]) == (first["id"], True)


@as_test(on_every_system, entitlement=paid_history)
async def test_a_free_plan_is_refused_and_nothing_is_created(served: Served) -> None:
    client, admin = await served.client(), await served.admin()

    for wanted in ({}, {"dry_run": True}):
        answer = await client.post("/v1/jobs", json={"source": "fitbit", **DAYS, **wanted})
        told = problem(answer, 402, "plan_required")
        assert "paid plans" in told["detail"] and not told["retryable"]
    seeds = {"source": "fitbit", "startDate": "2025-12-01", "endDate": "2025-12-10"}
    problem(await client.post("/jobs", json=seeds), 402, "plan_required")
    assert await served.app.jobs.list() == []

    put = await admin.put("/v1/users/ada", json={"plan": "premium"})
    assert (put.json()["id"], put.json()["plan"]) == ("ada", "premium")
    assert (await admin.get("/v1/users/ada")).json() == put.json()
    await start(client)


# ---- following ---------------------------------------------------------------------------------


@with_every_system
async def test_an_unchanged_status_is_not_sent_again(served: Served) -> None:
    client = await served.client()
    path = f"/v1/jobs/{(await start(client))['id']}"
    first = await client.get(path)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"

    await served.clock.sleep(3600)
    # Time passing alone changes nothing.
    assert (await client.get(path, headers={"If-None-Match": tag})).status_code == 304

    await client.post(f"{path}/pause")

    changed = await client.get(path, headers={"If-None-Match": tag})
    assert changed.status_code == 200 and changed.headers["etag"] != tag


async def read_with_a_gap(ctx: Context) -> Chunk:
    assert ctx.day is not None
    if ctx.day.day == 4:
        raise Malformed("no JSON")
    return await read_day(ctx)


@as_test(on_server, history(read=read_with_a_gap, retry=RetryPolicy(errors_max=1, pauses_max=0)))
async def test_progress_events_days_and_gaps_are_told(served: Served) -> None:
    client = await served.client()
    job_id = (await start(client))["id"]
    await served.work_off(job_id)

    told = (await client.get(f"/v1/jobs/{job_id}/status")).json()
    assert (told["state"], told["reason"], told["percent"]) == ("success", "done_with_gaps", 100.0)
    counts = told["counts"]
    assert (counts["found"], counts["imported"], counts["days_held"]) == (8, 8, 8)
    assert (counts["days_empty"], counts["days_failed"]) == (1, 1)
    [gap] = told["gaps"]
    assert (gap["day"], gap["status"]) == ("2025-12-04", "failed")
    assert gap["reason"] == "We tried several times and could not import this day."
    assert (gap["error"], told["operator"]) == (None, None)
    assert told["poll_after_s"] is None and told["finished_at"] is not None

    path = f"/v1/jobs/{job_id}/days"
    days = (await client.get(path)).json()
    assert [each["day"][-2:] for each in days["data"]] == [f"{n:02}" for n in range(1, 11)]
    assert {each["status"] for each in days["data"]} == {"held", "empty", "failed"}
    walked = await _walked(client, path, limit=3)
    assert walked == days["data"]
    assert (await client.get(path, params={"after": "2026-01-01"})).json()["data"] == []

    events = await _walked(client, f"/v1/jobs/{job_id}/events", limit=4)
    assert [each["kind"] for each in events] == [
        each.kind for each in await served.app.jobs.events(job_id)
    ]
    assert "no JSON" not in str([told, days, events])

    # Operators are told what went wrong, and where.
    admin = await served.admin()
    [gap] = (await admin.get(f"/v1/jobs/{job_id}")).json()["gaps"]
    assert (gap["error"]["kind"], gap["error"]["message"]) == ("Malformed", "no JSON")
    assert gap["error"]["raised_at"].startswith("tests/web/test_jobs_api.py:")
    assert "no JSON" in str((await admin.get(path)).json())
    assert "no JSON" in str((await admin.get(f"/v1/jobs/{job_id}/events")).json())


async def read_counted(ctx: Context) -> Chunk:
    return Chunk(counts={"without_distance": 2}, high_water={"day": str(ctx.day)})


@as_test(on_server, history(read=read_counted))
async def test_what_the_source_counts_and_names_is_told(served: Served) -> None:
    client = await served.client()
    before = await start(client)
    assert (before["source_counts"], before["high_water"]) == ({}, None)
    await served.work_off(before["id"])

    told = (await client.get(f"/v1/jobs/{before['id']}/status")).json()
    [listed] = (await client.get("/v1/jobs")).json()["data"]

    for each in (told, listed):
        assert each["source_counts"] == {"without_distance": 20}
        assert each["high_water"] == {"day": "2025-12-01"}


async def _walked(client: Any, path: str, **params: Any) -> list[dict[str, Any]]:
    """Every page of a list, one after another."""
    found: list[dict[str, Any]] = []
    for _ in range(100):
        page = (await client.get(path, params=params)).json()
        assert len(page["data"]) <= params["limit"]
        found += page["data"]
        if page["next_cursor"] is None:
            return found
        params["after"] = page["next_cursor"]
    raise AssertionError("the list does not end")


@with_server
async def test_jobs_are_listed_in_pages_and_by_what_they_are(served: Served) -> None:
    admin = await served.admin()
    ids = [(await start(admin, user_id=f"user {n}"))["id"] for n in range(5)]
    await admin.post(f"/v1/jobs/{ids[1]}/cancel")
    await admin.post(f"/v1/jobs/{ids[2]}/pause")

    listed = await _walked(admin, "/v1/jobs", limit=2)

    assert [each["id"] for each in listed] == ids[::-1]

    async def found(**params: Any) -> list[str]:
        page = (await admin.get("/v1/jobs", params=params)).json()
        return [each["id"] for each in page["data"]]

    assert await found(state="paused") == [ids[2]]
    assert await found(state=["paused", "cancelled"]) == [ids[2], ids[1]]
    assert await found(user_id="user 3") == [ids[3]]
    assert await found(sync="other") == []
    told = problem(await admin.get("/v1/jobs", params={"state": "lost"}), 422, "invalid_input")
    assert told["field"].startswith("state")


async def read_expired(ctx: Context) -> Chunk:
    raise AuthExpired


@as_test(on_server, history(read=read_expired))
async def test_whom_to_sign_in_to_again_is_told(served: Served) -> None:
    client = await served.client()
    job_id = (await start(client))["id"]
    await served.work_off(job_id)

    told = (await client.get(f"/v1/jobs/{job_id}")).json()

    assert (told["state"], told["reason"]) == ("failed", "needs_reauth")
    assert told["reconnect"] == {"provider": "fitbit", "connection_id": "ada"}


# ---- steering ----------------------------------------------------------------------------------


@with_server
async def test_retry_is_for_what_stands_still(served: Served) -> None:
    client = await served.client()
    job_id = (await start(client))["id"]

    async def post(verb: str) -> Any:
        return await client.post(f"/v1/jobs/{job_id}/{verb}")

    # In line already: nothing to do, and no harm done.
    assert (await post("retry")).json()["state"] == "pending"
    assert (await post("pause")).json()["state"] == "paused"
    assert (await post("retry")).json()["reason"] == "retry_now"
    assert (await post("cancel")).json()["state"] == "cancelled"
    for verb in ("retry", "pause", "resume"):
        problem(await post(verb), 409, "job_cancelled")
    assert (await post("cancel")).status_code == 200


@with_server
async def test_a_link_opens_the_page_of_its_job(served: Served) -> None:
    client = await served.client()
    job_id = (await start(client))["id"]

    answer = await client.post(f"/v1/jobs/{job_id}/link", json={"ttl_hours": 2})

    told = answer.json()
    assert told["expires_at"] == "2026-01-01T02:00:00Z"
    assert told["url"].startswith("http://127.0.0.1:8080/p/")
    assert answer.headers["cache-control"] == "no-store"
    page = await served.with_headers().get(told["url"].removeprefix("http://127.0.0.1:8080"))
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]
    assert (await client.post(f"/v1/jobs/{job_id}/link")).status_code == 200
    for ttl in (0, 90 * 24 + 1, "2", 1.5, True):
        answer = await client.post(f"/v1/jobs/{job_id}/link", json={"ttl_hours": ttl})
        assert problem(answer, 422, "invalid_input")["field"] == "ttl_hours"


@as_test(on_server, budgeted())
async def test_budgets_are_told_by_source_and_window(served: Served) -> None:
    [told] = (await (await served.admin()).get("/v1/budgets")).json()["data"]

    assert (told["source"], told["windows"][0]["amount"]) == ("fitbit", 150)
