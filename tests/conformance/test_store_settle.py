"""Settling: what each change makes of the row, and what it tells."""

import inspect
import itertools
from datetime import timedelta
from typing import get_type_hints

import msgspec

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Reason, Summary
from headgate.model.states import JOB, JobEdge, JobState
from tests.conformance.changes import CASES, CHUNK, DAY, NOW, WORN
from tests.store_bundles import SqlStores, Stores
from tests.stores import claim_ids, in_state, kinds, rewrite, run_one, settled


def test_every_constructor_has_a_case() -> None:
    made = {
        name
        for name, function in inspect.getmembers(change, inspect.isfunction)
        if not name.startswith("_") and get_type_hints(function)["return"] is JobChange
    }

    assert made == set(CASES)


async def worn(store: Stores, job: Job) -> Job:
    """The job with every counter up, in the row too."""
    await rewrite(store, msgspec.structs.replace(job, **WORN, summary=Summary()))
    return await store.jobs.get(job.id)


def _turn(store: Stores, before: Job) -> int | None:
    # On DynamoDB the queues outside are fair, so jobs have no turns.
    return (before.turn or 0) + 1 if isinstance(store, SqlStores) else None


async def test_a_change_makes_of_the_row_what_its_constructor_says(
    store: Stores, clock: ManualClock
) -> None:
    for name, case in CASES.items():
        # Given a job that has seen much, in a state that the change starts from
        before = await worn(store, await in_state(store, case.source))
        told = await kinds(store, before.id)

        # When the change is applied, some seconds later
        clock.advance(10)
        wanted = case.make(before)
        after = await settled(store, wanted)

        # Then the answer is what the store holds
        assert after == await store.jobs.get(before.id), name
        # And the row has become what the constructor says, and nothing else has changed
        target, at_once = wanted.edge.target, wanted.wake == timedelta(0)
        expected = msgspec.structs.replace(
            before,
            **case.becomes,
            state=target,
            reason=wanted.after.reason,
            wake_at=None if wanted.wake is None else NOW + wanted.wake,
            # Nobody else waits, but the job itself where it was pending before.
            turn=_turn(store, before) if target is JobState.PENDING and at_once else None,
            token=before.token + wanted.fences,
            lease_until=before.lease_until if target in JOB.claimed else None,
            updated_at=NOW,
            finished_at=NOW if target in JOB.terminal else None,
        )
        assert msgspec.to_builtins(after) == msgspec.to_builtins(expected), name
        # And one event tells of it
        assert await kinds(store, before.id) == [*told, wanted.event]
        [*_, event] = await store.events.list_events(before.id, after=0, limit=100)
        assert (event.job_id, event.at, event.data) == (before.id, NOW, case.data)

        # And it is due at once where it may go on at once; a probe goes to those that look for one
        due = [before.id] if at_once and name != "pass_probe_on" else []
        assert await claim_ids(store, 1) == due, name
        clock.advance(-10)


async def test_a_change_takes_effect_only_from_the_states_of_its_edge(store: Stores) -> None:
    for edge, source in itertools.product(JobEdge, JobState):
        if edge is JobEdge.CLAIM:
            continue
        # Given a job in any state, and a change made as if it were in a fitting one
        job = await in_state(store, source)
        fitting = msgspec.structs.replace(job, state=JOB.edge(edge).sources[0])
        made = (case.make(fitting) for case in CASES.values())
        wanted = next(each for each in made if each.edge.name == edge)

        # When it is applied
        after = await store.jobs.settle(wanted)

        # Then it took effect where the table allows it, or where a cancel made it into its own end
        redirected = source is JobState.CANCELLING and edge in (
            JobEdge.ADVANCE,
            JobEdge.REST,
            JobEdge.PAUSE,
        )
        if redirected or source in JOB.edge(edge).sources:
            assert after is not None, (edge, source)
            target = JobState.CANCELLED if redirected else JOB.edge(edge).target
            assert after.state is target, (edge, source)
        else:
            assert after is None, (edge, source)
            assert await store.jobs.get(job.id) == job, (edge, source)
        # And nothing waits when the next begins
        await claim_ids(store, 1)


async def test_the_last_day_given_up_ends_the_job_with_gaps(store: Stores) -> None:
    running = await run_one(store)

    ended = await settled(store, change.skip(running, CHUNK, error="bad", day=DAY, last=True))

    assert (ended.state, ended.reason) == (JobState.SUCCESS, Reason.DONE_WITH_GAPS)
    assert ended.error == "bad"
