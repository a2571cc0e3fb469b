"""Leases and recovery: heartbeats, lost workers, late cancels, providers that come back."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Lane, Reason
from headgate.model.lease import Claim
from headgate.model.states import JOB, JobState
from tests.store_bundles import Stores
from tests.stores import (
    LEASE,
    START,
    claim_ids,
    claim_one,
    ids,
    in_state,
    run_one,
    settled,
    shut_one,
    submit_one,
    tally,
)


def held(job: Job) -> Claim:
    return Claim(job.id, job.token)


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


# ---- heartbeat ---------------------------------------------------------------------------------


async def test_one_heartbeat_answers_for_each_job_by_its_own_state(
    store: Stores, clock: ManualClock
) -> None:
    # Given a job that runs, one that is being cancelled, one that ended, one under a newer claim
    runs = await run_one(store)
    cancels = await in_state(store, JobState.CANCELLING)
    ended = await in_state(store, JobState.SUCCESS)
    lost = await run_one(store)
    await settled(store, change.release(lost))
    newer = await claim_one(store, worker="worker_2")

    # When a worker beats for all of them, and for one that was never there
    clock.advance(10)
    claims = [held(job) for job in (runs, cancels, ended, lost)]
    states = await store.jobs.extend([*claims, Claim("job_never", 1)], lease=LEASE)

    # Then only what it holds is there, and only that is extended
    assert states == {runs.id: JobState.RUNNING, cancels.id: JobState.CANCELLING}
    assert (await store.jobs.get(cancels.id)).lease_until == START + after(10) + LEASE
    assert await store.jobs.get(newer.id) == newer
    assert await store.jobs.get(ended.id) == ended


# ---- lost workers and late cancels -------------------------------------------------------------


async def test_a_cancelling_job_is_expired_when_its_deadline_is_over(
    store: Stores, clock: ManualClock
) -> None:
    # Given a job that is being cancelled, and a worker that beats on but does not let go
    cancelling = await in_state(store, JobState.CANCELLING)
    clock.advance(29)
    await store.jobs.extend([held(cancelling)], lease=after(3600))
    assert list(await store.jobs.list_expired(limit=10)) == []

    # When the deadline of half a minute is over
    clock.advance(2)

    # Then it is found, once, although its lease goes on
    assert ids(await store.jobs.list_expired(limit=10)) == [cancelling.id]
    # And once when that is over too
    clock.advance(7200)
    assert ids(await store.jobs.list_expired(limit=10)) == [cancelling.id]


async def test_lost_and_late_together_are_at_most_as_many_as_wanted(
    store: Stores, clock: ManualClock
) -> None:
    # Given two jobs that are cancelled too slowly by workers that beat on, and two lost ones
    for _ in range(2):
        cancelling = await in_state(store, JobState.CANCELLING)
        await store.jobs.extend([held(cancelling)], lease=after(86_400))
    for _ in range(2):
        await run_one(store)

    # When the deadlines and the leases are over
    clock.advance(3600)

    # Then no more are found than the rescuer wants, and all of them where it wants more
    assert len(await store.jobs.list_expired(limit=2)) == 2
    assert len(await store.jobs.list_expired(limit=10)) == 4


async def test_a_job_that_nobody_holds_does_not_expire(store: Stores, clock: ManualClock) -> None:
    # Whoever waits comes last: what is to be claimed must be alone in line.
    for state in sorted(JobState, key=lambda each: each is JobState.PENDING):
        if state not in JOB.claimed:
            await in_state(store, state)

    clock.advance(86_400)

    assert list(await store.jobs.list_expired(limit=10)) == []


@pytest.mark.fault(3)
async def test_a_rescued_job_counts_a_crash_and_no_error(store: Stores, clock: ManualClock) -> None:
    running = await run_one(store)
    clock.advance(61)
    [lost] = await store.jobs.list_expired(limit=10)

    rescued = await settled(store, change.rescue(lost, after=timedelta(0)))

    assert (rescued.crashes, rescued.attempts, rescued.error) == (1, 0, None)
    assert (rescued.token, rescued.state) == (running.token + 1, JobState.PENDING)
    assert await claim_ids(store, 1) == [running.id]


# ---- providers that come back ------------------------------------------------------------------


async def test_a_shut_provider_is_probed_by_one_job_when_its_cool_down_is_over(
    store: Stores, clock: ManualClock
) -> None:
    # Given three jobs of one provider that the breaker paused, cooling down one after another, and
    # one each of two others
    _, first, _ = [await shut_one(store, source="roam", cooldown_s=s) for s in (200, 100, 300)]
    others = [await shut_one(store, source=source, cooldown_s=300) for source in ("a", "b")]

    # When none, and then all, have cooled down
    clock.advance(99)
    assert list(await store.breakers.list_thawable(limit=10)) == []
    clock.advance(300)

    # Then the one that waited longest is the probe, and each provider has its own
    probes = await store.breakers.list_thawable(limit=10)
    assert sorted(ids(probes)) == ids([first, *others])
    assert first in probes


async def test_there_is_no_second_probe_while_one_is_under_way(
    store: Stores, clock: ManualClock
) -> None:
    # Given a provider with two shut jobs, of which one was sent to probe
    await shut_one(store, source="roam")
    await shut_one(store, source="roam")
    clock.advance(3600)
    [first] = await store.breakers.list_thawable(limit=10)
    probe = await settled(store, change.thaw(first, probe=True))

    # When the probe waits and runs, nobody else is sent, and nobody has to look
    assert list(await store.breakers.list_thawable(limit=10)) == []
    assert await store.jobs.next_sweep_s() is None
    running = await claim_one(store)
    assert running.id == probe.id
    assert list(await store.breakers.list_thawable(limit=10)) == []

    # And when it is tried again, after an error of our own, another can be the probe
    await settled(store, change.retry(running, after=after(5), error="ours", recent_errors=()))
    [other] = await store.breakers.list_thawable(limit=10)
    assert other.id != probe.id


async def test_a_probe_that_ended_without_an_answer_makes_room_for_the_next(
    store: Stores, clock: ManualClock
) -> None:
    ends: dict[str, Callable[[Job], JobChange]] = {
        "open_breaker": lambda job: change.open_breaker(job, cooldown=after(10**6), error="down"),
        "fail": lambda job: change.fail(job, reason=Reason.REFUSED, error="no"),
        "cancel": change.cancel,
        "pause": change.pause,
    }
    for name, end in ends.items():
        # Given a provider with two shut jobs, of which one was sent to probe
        first, other = [await shut_one(store, source=name, cooldown_s=s) for s in (1, 2)]
        clock.advance(3600)
        probe = await settled(store, change.thaw(first, probe=True))

        # When the probe ends, and has not brought the provider back
        if name in ("open_breaker", "fail"):
            probe = await claim_one(store)
        assert not (await settled(store, end(probe))).probe

        # Then the other may try
        thawable = await store.breakers.list_thawable(limit=10)
        assert [job.id for job in thawable if job.provider == name] == [other.id]


async def test_an_operators_pause_never_thaws(store: Stores, clock: ManualClock) -> None:
    # Given a cool-down that an operator took over, and a job paused while it was in line
    await settled(store, change.keep_paused(await shut_one(store)))
    await settled(store, change.pause(await submit_one(store)))

    # When a long time has passed
    clock.advance(365 * 86_400)

    # Then nothing lets them go, not even their provider's return
    assert list(await store.breakers.list_thawable(limit=10)) == []
    assert await store.breakers.release_provider("roam", stagger=after(1), limit=10) == 0
    assert await store.jobs.next_sweep_s() is None


async def test_a_provider_that_answers_lets_its_jobs_go_one_after_another(
    store: Stores, clock: ManualClock
) -> None:
    # Given three shut jobs of a provider, and one of another
    jobs = [await shut_one(store, source="roam", cooldown_s=100 * number) for number in (2, 1, 3)]
    other = await shut_one(store, source="strava")

    # When the provider answers again
    assert await store.breakers.release_provider("roam", stagger=after(5), limit=10) == 3

    # Then its jobs are recovering, five seconds apart, the one that waited longest first
    for job, wake_s in zip(jobs, (10, 5, 15), strict=True):
        now = await store.jobs.get(job.id)
        assert (now.state, now.reason) == (JobState.PAUSED, Reason.RECOVERING)
        assert now.wake_at == START + after(wake_s)
    assert await store.jobs.get(other.id) == other
    # And they thaw in that order, however long their cool-down was
    clock.advance(4)
    assert list(await store.breakers.list_thawable(limit=10)) == []
    clock.advance(1)
    assert ids(await store.breakers.list_thawable(limit=10)) == [jobs[1].id]
    clock.advance(5)
    assert ids(await store.breakers.list_thawable(limit=10)) == [jobs[1].id, jobs[0].id]
    # And no more are let go at once than are wanted, those that waited longest
    more = [await shut_one(store, source="health", cooldown_s=s) for s in (100, 200, 300)]
    assert await store.breakers.release_provider("health", stagger=after(5), limit=2) == 2
    reasons = [(await store.jobs.get(job.id)).reason for job in more]
    assert reasons == [Reason.RECOVERING, Reason.RECOVERING, Reason.BREAKER]


async def test_a_provider_fails_others_if_it_has_paused_another_users_job(store: Stores) -> None:
    mine = await shut_one(store, source="roam")

    async def fails_others(pauses_below: int = 10) -> bool:
        return await store.breakers.fails_others(mine, "roam", pauses_below=pauses_below)

    # Not by the job itself, another provider's, one that is under way, or an operator's pause
    await shut_one(store, source="strava", user_id="eve")
    await run_one(store, source="roam", user_id="eve")
    await settled(store, change.keep_paused(await shut_one(store, source="roam", user_id="eve")))
    assert not await fails_others()

    await shut_one(store, source="roam", user_id="eve")

    assert await fails_others()
    assert not await fails_others(pauses_below=1)


async def test_recovering_jobs_and_probes_are_at_most_as_many_as_wanted(
    store: Stores, clock: ManualClock
) -> None:
    # Given five providers that are shut, and then three recovering jobs of one of them more
    for source in "abcde":
        await shut_one(store, source=source)
    clock.advance(3600)
    assert len(await store.breakers.list_thawable(limit=3)) == 3
    for _ in range(3):
        await shut_one(store, source="a")
    await store.breakers.release_provider("a", stagger=after(1), limit=10)

    # When all have come due
    clock.advance(3600)

    # Then no more are found than the rescuer wants, and all of them where it wants more
    for limit in (2, 3, 5):
        assert len(await store.breakers.list_thawable(limit=limit)) == limit
    assert len(await store.breakers.list_thawable(limit=10)) == 8


async def test_a_thawed_job_is_back_in_line_from_where_it_stopped(
    store: Stores, clock: ManualClock
) -> None:
    # Given a job that was paused after its first chunk
    running = await run_one(store)
    running = await settled(store, change.advance(running, tally(cursor="second"), {}))
    shut = await settled(store, change.open_breaker(running, cooldown=after(60), error="down"))

    # When it is thawed
    clock.advance(60)
    await settled(store, change.thaw(shut, probe=True))

    # Then it goes on there
    again = await claim_one(store)
    assert (again.id, again.cursor, again.steps) == (running.id, "second", 1)
    assert again.probe


# ---- when to look ------------------------------------------------------------------------------


async def test_the_next_sweep_is_the_first_of_all_and_never_in_the_past(
    store: Stores, clock: ManualClock
) -> None:
    # Given jobs that wait for a worker, then there is nothing to sweep
    await submit_one(store, lane=Lane.HOT)
    await submit_one(store, lane=Lane.HOT, delay_s=10)
    assert await store.jobs.next_sweep_s() is None

    # When a cool-down, a lease, a cancel, a recovering job and another cool-down end, each before
    # all others, then the next sweep is at that end
    await shut_one(store, source="roam", cooldown_s=3600)
    assert await store.jobs.next_sweep_s() == 3600.0
    await run_one(store)
    assert await store.jobs.next_sweep_s() == LEASE.total_seconds()
    await in_state(store, JobState.CANCELLING)
    assert await store.jobs.next_sweep_s() == 30.0
    await store.breakers.release_provider("roam", stagger=after(7), limit=10)
    assert await store.jobs.next_sweep_s() == 7.0
    await shut_one(store, source="strava", cooldown_s=5)
    assert await store.jobs.next_sweep_s() == 5.0
    clock.advance(3600)
    assert await store.jobs.next_sweep_s() == 0.0
