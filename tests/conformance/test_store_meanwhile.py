"""What was asked meanwhile: a cancel or a pause meets the chunk that its worker brings."""

from headgate.model import change
from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from tests.conformance.changes import CASES, MINUTE
from tests.store_bundles import Stores
from tests.stores import START, claim_ids, kinds, run_one, settled, tally


async def test_a_cancel_asked_meanwhile_ends_the_job_at_its_checkpoint(store: Stores) -> None:
    for name in ("advance", "rest", "retry", "defer", "open_breaker", "release"):
        # Given a running job that somebody asked to cancel
        running = await run_one(store)
        await settled(store, change.ask_cancel(running, deadline=MINUTE))

        # When its worker, who does not know, settles the chunk
        wanted = CASES[name].make(running)
        after = await settled(store, wanted)

        # Then the chunk counts, and the job is cancelled
        assert (after.state, after.reason) == (JobState.CANCELLED, Reason.CANCELLED)
        assert after.finished_at == START
        await assert_holds(store, after, wanted.after)
        [*_, event] = await store.events.list_events(running.id, after=0, limit=100)
        assert (event.kind, event.data["after"]) == ("cancelled", wanted.event)


async def assert_holds(store: Stores, after: Job, wanted: Job) -> None:
    """What the chunk brought is kept, and nobody goes on with the job."""
    assert (after.cursor, after.steps) == (wanted.cursor, wanted.steps)
    assert after.wake_at is after.lease_until is None
    assert after == await store.jobs.get(after.id)
    assert await claim_ids(store, 1) == []


async def test_a_job_that_ends_before_its_cancel_keeps_its_own_end(store: Stores) -> None:
    for name, state in (("succeed", JobState.SUCCESS), ("fail", JobState.FAILED)):
        running = await run_one(store)
        await settled(store, change.ask_cancel(running, deadline=MINUTE))

        after = await settled(store, CASES[name].make(running))

        assert after.state is state


async def test_a_pause_asked_meanwhile_holds_the_job_at_its_checkpoint(store: Stores) -> None:
    for name in ("advance", "rest", "skip", "retry", "defer", "open_breaker", "release"):
        # Given a running job that an operator asked to pause
        running = await run_one(store)
        held = await settled(store, change.ask_pause(running))
        assert (held.state, held.pause_requested) == (JobState.RUNNING, True)

        # When its worker, who does not know, settles the chunk
        wanted = CASES[name].make(running)
        after = await settled(store, wanted)

        # Then the chunk counts, and the job stands still until it is resumed
        assert (after.state, after.reason) == (JobState.PAUSED, Reason.OPERATOR)
        assert not after.pause_requested
        await assert_holds(store, after, wanted.after)
        assert list(await store.breakers.list_thawable(limit=10)) == []


async def test_a_pause_taken_back_in_time_changes_nothing(store: Stores) -> None:
    # Given a running job that was to pause, and then was not
    running = await run_one(store)
    await settled(store, change.ask_pause(running))
    await settled(store, change.drop_pause(running))

    # When its worker settles the chunk
    after = await settled(store, change.rest(running, tally(), {}))

    # Then it goes on
    assert after.state is JobState.PENDING
    assert await kinds(store, running.id) == ["submitted", "pause_asked", "pause_dropped", "chunk"]


async def test_a_job_that_ends_before_its_pause_keeps_its_own_end(store: Stores) -> None:
    running = await run_one(store)
    await settled(store, change.ask_pause(running))

    after = await settled(store, change.succeed(running, tally(), {}))

    assert (after.state, after.pause_requested) == (JobState.SUCCESS, False)


async def test_a_cancel_goes_before_a_pause(store: Stores) -> None:
    running = await run_one(store)
    held = await settled(store, change.ask_pause(running))
    await settled(store, change.ask_cancel(held, deadline=MINUTE))

    after = await settled(store, change.rest(running, tally(), {}))

    assert (after.state, after.pause_requested) == (JobState.CANCELLED, False)
