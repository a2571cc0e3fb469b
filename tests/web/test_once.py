"""Requests that come twice are carried out once, and answered alike."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import StoreUnavailable
from headgate.flow.jobs.service import Jobs
from headgate.model.api_key import Role
from headgate.toolkit.api import idempotency
from tests.web.callers import (
    DAYS,
    Served,
    on_server,
    problem,
    start,
    with_server,
)

BODY = {"source": "fitbit", **DAYS}
KEY = {"Idempotency-Key": "import-1"}


@with_server
async def test_the_same_request_again_gets_the_same_answer(served: Served) -> None:
    client = await served.client()
    first = await client.post("/v1/jobs", json=BODY, headers=KEY)
    # Even though the job has moved on meanwhile.
    await client.post(f"/v1/jobs/{first.json()['id']}/pause")
    await served.clock.sleep(24 * 3600 - 60)

    again = await client.post("/v1/jobs", json=BODY, headers=KEY)

    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    for name in ("location", "content-type", "etag", "x-content-type-options"):
        assert again.headers[name] == first.headers[name]
    assert len(await served.app.jobs.list()) == 1


@with_server
async def test_after_a_day_the_key_still_makes_no_second_job(served: Served) -> None:
    client = await served.client()
    first = await client.post("/v1/jobs", json=BODY, headers=KEY)
    await served.clock.sleep(24 * 3600 + 1)

    again = await client.post("/v1/jobs", json=BODY, headers=KEY)
    other = await client.post("/v1/jobs", json={**BODY, "reprocess": "all"}, headers=KEY)

    assert "idempotency-replayed" not in again.headers
    assert again.json()["id"] == first.json()["id"]
    problem(other, 422, "idempotency_key_reused")


@pytest.mark.security(29)
@with_server
async def test_while_the_first_is_under_way_others_wait(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await served.client()
    going, go = asyncio.Event(), asyncio.Event()
    begin = Jobs.submit

    async def slow(self: Jobs, request: Any) -> Any:
        going.set()
        await go.wait()
        return await begin(self, request)

    monkeypatch.setattr(Jobs, "submit", slow)
    first = asyncio.ensure_future(client.post("/v1/jobs", json=BODY, headers=KEY))
    await going.wait()

    second = await client.post("/v1/jobs", json=BODY, headers=KEY)

    told = problem(second, 409, "request_in_flight")
    assert told["retryable"] and int(second.headers["retry-after"]) >= 1
    go.set()
    done = await first
    assert done.status_code == 202
    third = await client.post("/v1/jobs", json=BODY, headers=KEY)
    assert (third.content, len(await served.app.jobs.list())) == (done.content, 1)


@with_server
async def test_a_request_that_died_after_its_commit_makes_no_second_job(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await served.client()

    async def die(*_: Any, **__: Any) -> None:
        # As a process does: nothing behind it runs.
        raise asyncio.CancelledError

    with monkeypatch.context() as dying:
        dying.setattr(idempotency.IdempotentRequests, "_remember", die)
        with pytest.raises(asyncio.CancelledError):
            await client.post("/v1/jobs", json=BODY, headers=KEY)
    [job] = await served.app.jobs.list()

    early = await client.post("/v1/jobs", json=BODY, headers=KEY)
    await served.clock.sleep(60)
    late = await client.post("/v1/jobs", json=BODY, headers=KEY)

    problem(early, 409, "request_in_flight")
    assert (late.status_code, late.json()["id"]) == (202, job.id)
    assert len(await served.app.jobs.list()) == 1
    assert (await client.post("/v1/jobs", json=BODY, headers=KEY)).content == late.content


@with_server
async def test_what_another_try_may_better_is_not_remembered(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await served.client()

    async def down(*_: Any) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as broken:
        broken.setattr(Jobs, "submit", down)
        answer = await client.post("/v1/jobs", json=BODY, headers=KEY)
        assert problem(answer, 503, "store_unavailable")["retryable"]
    assert (await client.post("/v1/jobs", json=BODY, headers=KEY)).status_code == 202

    # The same import under way is in the way only as long as it is.
    other = {"Idempotency-Key": "import-2"}
    told = problem(
        await client.post("/v1/jobs", json=BODY, headers=other), 409, "active_job_exists"
    )
    await client.post(f"/v1/jobs/{told['job_id']}/cancel")
    assert (await client.post("/v1/jobs", json=BODY, headers=other)).status_code == 202


@pytest.mark.security(2)
@with_server
async def test_anothers_key_is_invisible(served: Served) -> None:
    ada, bob = await served.client(), await served.client(user_id="bob")
    first = await ada.post("/v1/jobs", json=BODY, headers=KEY)

    # The same text from another user, and even from another key of the same user.
    theirs = await bob.post("/v1/jobs", json=BODY, headers=KEY)
    other = await (await served.client()).post("/v1/jobs", json=BODY, headers=KEY)

    assert theirs.json()["user_id"] == "bob"
    assert theirs.json()["id"] != first.json()["id"]
    problem(other, 409, "active_job_exists")
    # And one key that acts for two users.
    admin = await served.client(Role.ADMIN)
    wanted = {**BODY, "start_date": "2025-01-01", "user_id": "eve"}
    assert (await admin.post("/v1/jobs", json=wanted, headers=KEY)).status_code == 202
    problem(
        await admin.post("/v1/jobs", json={**wanted, "user_id": "fay"}, headers=KEY),
        422,
        "idempotency_key_reused",
    )


def test_a_link_is_not_stored(tmp_path: Path) -> None:
    async def main(served: Served) -> None:
        client = await served.client()
        job_id = (await start(client))["id"]

        first = await client.post(f"/v1/jobs/{job_id}/link", headers=KEY)
        again = await client.post(f"/v1/jobs/{job_id}/link", headers=KEY)

        assert first.status_code == again.status_code == 200
        assert "idempotency-replayed" not in again.headers
        token = first.json()["url"].rpartition("/")[2].encode()
        files = [each.read_bytes() for each in tmp_path.iterdir() if each.is_file()]
        assert files and not any(token in each for each in files)

    on_server(tmp_path, main)
