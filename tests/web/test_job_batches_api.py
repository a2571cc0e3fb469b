"""Starting many jobs at once, under /v1/jobs/batch."""

from typing import Any

import pytest

from headgate import Mode, paid_history
from headgate.store.sql.jobs.store import SqlJobs
from headgate.web.api.job_batches import BODY_BYTES_MAX, JOBS_MAX
from tests.web.callers import DAYS, Served, on_server, problem
from tests.web.test_syncs_api import notes
from tests.worlds import as_test

PATH = "/v1/jobs/batch"
KEY = {"Idempotency-Key": "import-1"}


def batch(*jobs: dict[str, Any]) -> dict[str, Any]:
    return {"jobs": [{"sync": "notes", **job} for job in jobs]}


@as_test(on_server, notes())
async def test_each_job_is_answered_in_its_place(served: Served) -> None:
    client = await served.admin()
    wanted = batch(
        {"user_id": "ada", "key": "a"},
        {"user_id": "bob", "mode": "history", **DAYS},
        {"user_id": "bob", "mode": "limit", "limit": 3},
        {"user_id": "ada", "key": "a"},
        {"user_id": "ada", "key": "a", "mode": "since"},
    )

    answer = await client.post(PATH, json=wanted)

    assert answer.status_code == 200, answer.text
    told = answer.json()
    ada, bob = (each["job_id"] for each in told["data"][:2])
    nothing = {"code": None, "field": None, "detail": None}
    assert told["data"] == [
        {"status": "created", "job_id": ada, **nothing},
        {"status": "created", "job_id": bob, **nothing},
        {"status": "active", "job_id": bob, **nothing},
        {"status": "existing", "job_id": ada, **nothing},
        {
            "status": "refused",
            "job_id": ada,
            "code": "idempotency_key_reused",
            "field": "key",
            "detail": told["data"][4]["detail"],
        },
    ]
    assert "use a new key" in told["data"][4]["detail"]
    assert told["counts"] == {"created": 2, "existing": 1, "active": 1, "refused": 1}
    jobs = {job.id: job for job in await served.app.jobs.list()}
    assert (jobs[ada].user_id, jobs[ada].connection_id) == ("ada", "ada")
    assert (jobs[bob].mode, jobs[bob].progress.total) == (Mode.HISTORY, 10)


#: What is wrong with one of the jobs, and the field of it.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"mode": "some"}, "mode"),
    ({"mode": "limit"}, "limit"),
    ({"mode": "history", "end_date": "2025-12-01"}, "start_date"),
    ({"mode": "full", **DAYS}, "start_date"),
    ({"sync": "other"}, "sync"),
    ({"sync": 7}, "sync"),
    ({"key": ""}, "key"),
    ({"connection_id": "bob"}, "connection_id"),
    ({"lane": "hot"}, "lane"),
]


@as_test(on_server, notes())
async def test_a_wrong_field_is_named_with_its_place_and_nothing_is_started(served: Served) -> None:
    client = await served.client()
    for job, field in WRONG:
        answer = await client.post(PATH, json=batch({}, {"mode": "since"}, {}, job, {}))

        told = problem(answer, 422, "invalid_input")
        assert told["field"] == f"jobs[3].{field}"
        assert told["detail"].startswith(f"jobs[3].{field}: ")
    assert await served.app.jobs.list() == []


@as_test(on_server, notes())
async def test_a_batch_has_jobs_and_not_too_many(served: Served) -> None:
    client = await served.client()
    wrong: list[Any] = [[], [{"sync": "notes"}] * (JOBS_MAX + 1), {}, None]
    for jobs in wrong:
        answer = await client.post(PATH, json={"jobs": jobs})

        assert problem(answer, 422, "invalid_input")["field"] == "jobs"


@as_test(on_server, notes())
async def test_a_batch_may_be_larger_than_other_bodies_and_has_a_limit(served: Served) -> None:
    client = await served.admin()
    users = [{"user_id": f"user {n} {'x' * 100}"} for n in range(JOBS_MAX)]

    whole = await client.post(PATH, json=batch(*users))
    large = await client.post(PATH, json={**batch(*users), "padding": "x" * BODY_BYTES_MAX})

    assert whole.json()["counts"]["created"] == JOBS_MAX
    problem(large, 413, "payload_too_large")


# ---- whose jobs --------------------------------------------------------------------------------


@pytest.mark.security(17)
@as_test(on_server, notes())
async def test_a_users_key_starts_jobs_of_that_user_alone(served: Served) -> None:
    client = await served.client(user_id="ada")

    told = problem(await client.post(PATH, json=batch({}, {"user_id": "bob"})), 403, "forbidden")
    assert told["detail"].startswith("jobs[1]: ")
    assert await served.app.jobs.list() == []

    await client.post(PATH, json=batch({}, {"user_id": "ada", "mode": "since"}))
    assert {job.user_id for job in await served.app.jobs.list()} == {"ada"}
    unnamed = await (await served.admin()).post(PATH, json=batch({"user_id": "ada"}, {}))
    assert problem(unnamed, 422, "invalid_input")["field"] == "jobs[1].user_id"


@as_test(on_server, notes(), entitlement=paid_history)
async def test_a_plan_that_does_not_include_it_refuses_that_job_alone(served: Served) -> None:
    client = await served.client()

    answer = await client.post(PATH, json=batch({"mode": "history", **DAYS}, {}))

    refused, created = answer.json()["data"]
    assert (refused["code"], refused["field"]) == ("plan_required", "mode")
    assert created["status"] == "created"


# ---- once --------------------------------------------------------------------------------------


@as_test(on_server, notes())
async def test_the_same_batch_again_gets_the_same_answer(served: Served) -> None:
    client = await served.admin()
    body = batch({"user_id": "ada"}, {"user_id": "bob"})
    first = await client.post(PATH, json=body, headers=KEY)

    again = await client.post(PATH, json=body, headers=KEY)
    # When the answer is no longer known, the jobs still are.
    await served.clock.sleep(24 * 3600 + 1)
    later = await client.post(PATH, json=body, headers=KEY)

    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert later.json()["counts"]["existing"] == 2
    jobs = [each["job_id"] for each in first.json()["data"]]
    assert [each["job_id"] for each in later.json()["data"]] == jobs
    assert len(await served.app.jobs.list()) == 2


@as_test(on_server, notes())
async def test_a_key_belongs_to_the_api_key_that_sent_it(served: Served) -> None:
    one, two = await served.client(user_id="ada"), await served.client(user_id="ada")
    first = (await one.post(PATH, json=batch({"key": "k"}))).json()["data"][0]

    same = (await one.post(PATH, json=batch({"key": "k"}))).json()["data"][0]
    other = (await two.post(PATH, json=batch({"key": "k"}))).json()["data"][0]

    assert (same["status"], same["job_id"]) == ("existing", first["job_id"])
    assert (other["status"], other["job_id"]) == ("active", first["job_id"])


@as_test(on_server, notes())
async def test_a_batch_that_the_store_refuses_leaves_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await served.client()
    submit = SqlJobs.submit_many

    async def fail(self: SqlJobs, new: Any) -> Any:
        from headgate.base.errors import StoreUnavailable

        raise StoreUnavailable

    monkeypatch.setattr(SqlJobs, "submit_many", fail)
    problem(await client.post(PATH, json=batch({}), headers=KEY), 503, "store_unavailable")
    monkeypatch.setattr(SqlJobs, "submit_many", submit)
    answer = await client.post(PATH, json=batch({}), headers=KEY)
    assert answer.json()["counts"]["created"] == 1
