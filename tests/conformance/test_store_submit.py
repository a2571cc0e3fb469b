"""Submitting: once per key, one active job for a sync and connection, whoever else comes."""

import asyncio
from datetime import date, timedelta
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import ActiveJobExists, KeyReused
from headgate.model import change
from headgate.model.job import JobParams, Lane, Mode, Reason
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.submission import SubmitResult
from tests.store_bundles import Stores
from tests.stores import (
    START,
    claim_ids,
    claim_one,
    everything,
    in_state,
    kinds,
    new_job,
    run_one,
    settled,
    submit_one,
)


async def test_a_submitted_job_reads_back_as_it_was_given(store: Stores) -> None:
    # Given a request with every field set
    wanted = new_job(
        mode=Mode.HISTORY,
        lane=Lane.HOT,
        key="key_1",
        params=JobParams(
            since=START,
            limit=7,
            options={"deep": [1, 2.5, None, "ü"]},
            plan=((date(2024, 3, 1), date(2024, 3, 1)),),
        ),
        start_date=date(2024, 2, 29),
        end_date=date(2024, 3, 1),
        cursor="2024-03-01",
    )

    # When it is submitted
    submitted = await store.jobs.submit(wanted)

    # Then the job stands as asked, and the answer is what the store holds
    job = submitted.job
    assert submitted.created
    assert job == await store.jobs.get(wanted.id)
    for name in ("user_id", "connection_id", "sync", "source", "mode", "lane", "key", "params"):
        assert getattr(job, name) == getattr(wanted, name), name
    assert (job.start_date, job.end_date) == (wanted.start_date, wanted.end_date)
    assert job.cursor == "2024-03-01"
    assert (job.state, job.reason) == (JobState.PENDING, Reason.QUEUED)
    assert (job.token, job.steps, job.attempts) == (0, 0, 0)
    assert job.wake_at == job.created_at == job.updated_at == START
    assert job.lease_until is job.started_at is job.finished_at is None
    assert await kinds(store, job.id) == ["submitted"]
    # And one that is delayed wakes after its delay
    assert (await submit_one(store, delay_s=90)).wake_at == START + timedelta(seconds=90)


async def test_the_same_key_and_request_is_answered_with_the_first_job(
    store: Stores, clock: ManualClock
) -> None:
    # Given a job under a key
    first = await submit_one(store, key="key_1", connection_id="c")
    before = await everything(store)

    # When the same request comes again, later and under another id
    clock.advance(60)
    again = await store.jobs.submit(new_job(key="key_1", connection_id="c"))

    # Then it is answered with the first job, and nothing is written
    assert again == SubmitResult(first, created=False)
    assert await everything(store) == before


async def test_a_key_with_another_request_is_refused(store: Stores) -> None:
    # Given a job under a key
    first = await submit_one(store, key="key_1")
    before = await everything(store)

    # When the key comes with another request
    with pytest.raises(KeyReused) as refused:
        await store.jobs.submit(new_job(key="key_1", request_hash="other"))

    # Then the refusal names the job, and nothing is written
    assert refused.value.job_id == first.id
    assert await everything(store) == before


async def test_a_key_belongs_to_its_user(store: Stores) -> None:
    # Given a key that two users have used, each for a request of their own
    mine: dict[str, Any] = {"user_id": "user_1"}
    theirs: dict[str, Any] = {"user_id": "user_2", "request_hash": "other"}
    first = await submit_one(store, key="key_1", **mine)
    second = await submit_one(store, key="key_1", **theirs)

    # When both requests come again
    again = [await store.jobs.submit(new_job(key="key_1", **each)) for each in (mine, theirs)]

    # Then each is answered with its own job, and says nothing about the other's
    assert again == [SubmitResult(first, created=False), SubmitResult(second, created=False)]


async def test_a_second_active_job_is_refused_and_the_first_is_named(store: Stores) -> None:
    for state in JOB.active:
        # Given a job in an active state
        active = await in_state(store, state, connection_id=f"c-{state}")
        before = await everything(store)

        # When another is submitted for the same sync and connection
        with pytest.raises(ActiveJobExists) as refused:
            await store.jobs.submit(new_job(connection_id=f"c-{state}"))

        # Then the refusal names the active one, and nothing is written
        assert refused.value.job_id == active.id
        assert await everything(store) == before
        # And nothing waits when the next begins
        await claim_ids(store, 1)


async def test_another_sync_or_connection_may_be_active_at_the_same_time_without_a_key(
    store: Stores,
) -> None:
    for sync, connection_id in (("notes", "c"), ("other", "c"), ("notes", "other")):
        await submit_one(store, sync=sync, connection_id=connection_id, key=None)


async def test_of_twenty_submits_at_once_exactly_one_makes_the_job(store: Stores) -> None:
    # Given twenty requests for one sync and connection
    wanted = [new_job(connection_id="c") for _ in range(20)]

    # When they come at the same time
    answers = await asyncio.gather(*map(store.jobs.submit, wanted), return_exceptions=True)

    # Then one has made the job, and all others are told which
    created = [answer for answer in answers if isinstance(answer, SubmitResult)]
    refused = [answer for answer in answers if isinstance(answer, ActiveJobExists)]
    assert len(created) == 1
    assert len(refused) == 19
    assert {each.job_id for each in refused} == {created[0].job.id}
    assert len((await everything(store))["jobs"]) == 1


async def test_of_twenty_submits_with_one_key_exactly_one_makes_the_job(store: Stores) -> None:
    # Given twenty copies of one request, as an impatient client sends them
    wanted = [new_job(connection_id="c", key="key_1") for _ in range(20)]

    # When they come at the same time
    answers = await asyncio.gather(*map(store.jobs.submit, wanted))

    # Then all are answered with the same job
    assert [answer.created for answer in answers].count(True) == 1
    assert len({answer.job.id for answer in answers}) == 1
    rows = await everything(store)
    assert len(rows["jobs"]) == len(rows["job_events"]) == 1


async def test_retrying_a_failed_job_beside_a_newer_active_one_is_refused(store: Stores) -> None:
    # Given a failed job, and a newer one of the same sync and connection
    failed = await in_state(store, JobState.FAILED, connection_id="c")
    newer = await submit_one(store, connection_id="c")
    before = await everything(store)

    # When the failed one is retried
    with pytest.raises(ActiveJobExists) as refused:
        await store.jobs.settle(change.start_again(failed, Reason.RETRY_NOW))

    # Then the refusal names the newer one, and nothing is written
    assert refused.value.job_id == newer.id
    assert await everything(store) == before


async def test_a_failed_job_may_be_retried_when_the_newer_one_has_ended(store: Stores) -> None:
    # Given a failed job, and a newer one that has ended as well
    failed = await in_state(store, JobState.FAILED, connection_id="c")
    newer = await run_one(store, connection_id="c")
    await settled(store, change.fail(newer, reason=Reason.REFUSED, error="no"))

    # When the older one is retried
    again = await settled(store, change.start_again(failed, Reason.RETRY_NOW))

    # Then it is back in line, and takes the place of the active job
    assert again.state is JobState.PENDING
    assert (await claim_one(store)).id == failed.id
    with pytest.raises(ActiveJobExists):
        await store.jobs.submit(new_job(connection_id="c"))
