"""The first specification's own paths: a client that was written to it works."""

from typing import Any

from headgate import Chunk, Context, Transient
from headgate.errors import Forbidden
from headgate.model.states import JobState
from headgate.systems.health_history import api
from headgate.systems.health_history.api import (
    MORE_NAMES,
    NAMES,
    HistoricalJob,
    HistoricalLine,
)
from headgate.systems.health_history.rows import STATUS_OF, Status
from headgate.types import JobStatus
from tests.web import test_openapi
from tests.web.callers import Served, history, on_every_system, problem, with_every_system
from tests.worlds import as_test

SEED_FIELDS = {
    *("jobId", "userId", "source", "destination", "startDate", "endDate"),
    *("cursorDate", "status", "errorCount", "lastAttempt"),
}
OUR_FIELDS = {
    *("percent", "message", "retryable", "reason", "wake_at"),
    *("finish", "time_left", "gaps", "poll_after_s"),
}
WANTED = {"source": "fitbit", "startDate": "2025-12-01", "endDate": "2025-12-10"}


class Phone:
    """An app that knows the specification, and nothing else."""

    def __init__(self, served: Served, client: Any) -> None:
        self.served = served
        self.client = client

    async def start(self) -> dict[str, Any]:
        answer = await self.client.post("/jobs", json=WANTED)
        assert answer.status_code == 202, answer.text
        told: dict[str, Any] = answer.json()
        assert answer.headers["location"] == f"/jobs/{told['jobId']}/status"
        return told

    async def status(self, job_id: str) -> dict[str, Any]:
        answer = await self.client.get(f"/jobs/{job_id}/status")
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def until(self, job_id: str, status: str) -> dict[str, Any]:
        for _ in range(1000):
            told = await self.status(job_id)
            if told["status"] == status:
                return told
            await self.served.clock.sleep(told["poll_after_s"] or 10)
        raise AssertionError(f"it never came to be {status}")


@with_every_system
async def test_a_job_is_started_and_followed_to_its_end(served: Served) -> None:
    phone = Phone(served, await served.client())

    told = await phone.start()

    assert told.keys() == SEED_FIELDS | OUR_FIELDS
    assert {name: told[name] for name in SEED_FIELDS - {"jobId"}} == {
        "userId": "ada",
        "source": "fitbit",
        "destination": None,
        "startDate": "2025-12-01",
        "endDate": "2025-12-10",
        "cursorDate": "2025-12-10",
        "status": "PENDING",
        "errorCount": 0,
        "lastAttempt": None,
    }
    assert (told["percent"], told["retryable"]) == (0.0, False)
    assert told["message"].startswith("Waiting for a worker: no worker that can do this")
    await served.app.supervisor().start()
    done = await phone.until(told["jobId"], "COMPLETED")
    assert done.keys() == SEED_FIELDS | OUR_FIELDS
    assert (done["percent"], done["reason"], done["poll_after_s"]) == (100.0, "done", None)
    assert done["lastAttempt"].endswith("Z")
    assert done["cursorDate"] == "2025-12-01"


async def fail(ctx: Context) -> Chunk:
    raise Transient("503")


@as_test(on_every_system, history(read=fail))
async def test_a_job_that_the_breaker_paused_is_retried(served: Served) -> None:
    phone = Phone(served, await served.client())
    job_id = (await phone.start())["jobId"]
    supervisor = served.app.supervisor()
    await supervisor.start()

    paused = await phone.until(job_id, "PAUSED")
    await supervisor.stop()

    assert (paused["errorCount"], paused["reason"]) == (6, "breaker")
    assert paused["wake_at"] > paused["lastAttempt"]
    assert "servers are busy" in paused["message"] and "resume" in paused["message"]
    assert paused["retryable"] is True
    assert paused["cursorDate"] == "2025-12-10"
    again = (await phone.client.post(f"/jobs/{job_id}/retry")).json()
    assert (again["status"], again["reason"]) == ("PENDING", "retry_now")


@with_every_system
async def test_a_job_is_paused_resumed_and_cancelled(served: Served) -> None:
    phone = Phone(served, await served.client())
    job_id = (await phone.start())["jobId"]

    said = []
    for verb in ("pause", "resume", "cancel"):
        answer = await phone.client.post(f"/jobs/{job_id}/{verb}")
        assert answer.status_code == 200, answer.text
        said.append((answer.json()["status"], answer.json()["reason"]))

    assert said == [("PAUSED", "operator"), ("PENDING", "resumed"), ("CANCELLED", "cancelled")]
    cancelled = await phone.status(job_id)
    assert (cancelled["status"], cancelled["retryable"]) == ("CANCELLED", False)
    refused = await phone.client.post(f"/jobs/{job_id}/retry")
    told = problem(refused, 409, "job_cancelled")
    assert "is cancelled" in told["detail"] and "start a new job" in told["detail"]
    # And that can be done
    assert (await phone.start())["jobId"] != job_id


@with_every_system
async def test_fields_are_named_as_the_caller_spells_them(served: Served) -> None:
    client = await served.client()

    for wrong, field in (
        ({"endDate": "2099-01-01"}, "endDate"),
        ({"endDate": "2025-11-01"}, "endDate"),
        ({"startDate": "yesterday"}, "startDate"),
        ({"source": "nowhere"}, "source"),
        ({"status": "COMPLETED"}, "status"),
    ):
        told = problem(await client.post("/jobs", json={**WANTED, **wrong}), 422, "invalid_input")
        assert told["field"] == field
    told = problem(await (await served.admin()).post("/jobs", json=WANTED), 422, "invalid_input")
    assert told["field"] == "userId"
    assert (await client.get("/jobs")).json()["data"] == []


def test_every_state_has_one_of_the_five_words_or_is_cancelled() -> None:
    assert set(STATUS_OF) == set(JobState)
    assert set(STATUS_OF.values()) == set(Status)
    five = {"PENDING", "RUNNING", "PAUSED", "COMPLETED", "FAILED"}
    assert {word.value for word in Status} == five | {"CANCELLED"}


def test_every_field_is_a_name_over_the_one_representation() -> None:
    ours = JobStatus.__struct_fields__

    assert set(NAMES) | set(MORE_NAMES) == SEED_FIELDS | OUR_FIELDS
    assert set(NAMES.values()) | set(MORE_NAMES.values()) <= set(ours)
    for model, names in ((HistoricalLine, NAMES), (HistoricalJob, {**NAMES, **MORE_NAMES})):
        assert set(model.model_fields) == set(names)
        [example] = model.model_json_schema()["examples"]
        assert model.model_validate(example).model_dump(mode="json") == example


async def take_an_hour(ctx: Context) -> Chunk:
    await ctx.clock.sleep(3600)
    return Chunk()


@as_test(on_every_system, history(read=take_an_hour, chunk_s_max=7200.0))
async def test_a_job_that_is_being_cancelled_is_polled_until_it_is_over(served: Served) -> None:
    phone = Phone(served, await served.client())
    job_id = (await phone.start())["jobId"]
    supervisor = served.app.supervisor()
    await supervisor.start()
    await phone.until(job_id, "RUNNING")

    told = (await phone.client.post(f"/jobs/{job_id}/cancel")).json()

    assert (told["status"], told["reason"]) == ("RUNNING", "cancel_asked")
    assert told["poll_after_s"] is not None
    ended = await phone.until(job_id, "CANCELLED")
    assert ended["poll_after_s"] is None
    await supervisor.stop()


async def be_refused(ctx: Context) -> Chunk:
    raise Forbidden("https://api.example.test/v1 answered 403")


@as_test(on_every_system, history(read=be_refused))
async def test_a_job_that_cannot_be_helped_is_not_retryable(served: Served) -> None:
    phone = Phone(served, await served.client())
    job_id = (await phone.start())["jobId"]
    supervisor = served.app.supervisor()
    await supervisor.start()

    failed = await phone.until(job_id, "FAILED")
    await supervisor.stop()

    assert failed["retryable"] is False
    assert "403" not in str(failed) and "https" not in str(failed)


# ---- the description ---------------------------------------------------------------------------


@with_every_system
async def test_its_operations_have_names_that_stay_and_examples_that_hold(served: Served) -> None:
    paths = served.web.openapi()["paths"]
    found = [methods for path, methods in paths.items() if path.startswith("/jobs")]
    assert {told["operationId"] for methods in found for told in methods.values()} == {
        *("start_historical_job", "list_historical_jobs", "get_historical_job_status"),
        *("retry_historical_job", "pause_historical_job"),
        *("resume_historical_job", "cancel_historical_job"),
    }
    test_openapi.test_examples_are_what_the_models_hold(api)
