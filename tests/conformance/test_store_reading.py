"""Reading: one's own jobs only, newest first, page by page; events in the order of their time."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound
from headgate.model import change
from headgate.model.job import Job, Mode
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.events import LastEvent
from headgate.ports.jobs.store import JobFilter
from tests.store_bundles import Stores
from tests.stores import ids, in_state, run_one, settled, submit_one, tally


@pytest.mark.security(3)
async def test_another_users_job_is_as_unknown_as_one_that_is_not_there(store: Stores) -> None:
    # Given a job of one user
    job = await submit_one(store, user_id="user_1")
    assert await store.jobs.get(job.id) == await store.jobs.get(job.id, user_id="user_1") == job

    # When another asks for it, and for one that was never there
    with pytest.raises(NotFound) as of_another:
        await store.jobs.get(job.id, user_id="user_2")
    with pytest.raises(NotFound) as never:
        await store.jobs.get("job_never", user_id="user_2")

    # Then the answers differ in nothing but the id that was asked for
    assert str(of_another.value).replace(job.id, "job_never") == str(never.value)


async def submit_four(store: Stores) -> list[Job]:
    return [
        await submit_one(store, user_id="u1", sync="notes", connection_id="c1"),
        await submit_one(store, user_id="u1", sync="other", connection_id="c1"),
        await submit_one(store, user_id="u2", sync="notes", connection_id="c2"),
        await submit_one(store, user_id="u1", sync="notes", connection_id="c3"),
    ]


async def test_jobs_are_listed_newest_first_by_what_is_wanted(store: Stores) -> None:
    jobs = await submit_four(store)

    listings: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [3, 2, 1, 0]),
        ({"user_id": "u1"}, [3, 1, 0]),
        ({"user_id": "nobody"}, []),
        ({"sync": "notes"}, [3, 2, 0]),
        ({"connection_id": "c1"}, [1, 0]),
        ({"user_id": "u1", "sync": "notes"}, [3, 0]),
        ({"user_id": "u2", "sync": "other"}, []),
        ({"states": (JobState.PENDING,)}, [3, 2, 1, 0]),
        ({"states": (JobState.RUNNING, JobState.FAILED)}, []),
    ]
    for wanted, found in listings:
        listed = await store.jobs.list_jobs(JobFilter(**wanted), limit=10)
        assert list(listed) == [jobs[place] for place in found], wanted


async def test_a_list_is_paged_by_the_last_id_seen(store: Stores) -> None:
    # Given five jobs of a user, among others'
    mine = []
    for _ in range(5):
        mine.append(await submit_one(store, user_id="u1"))
        await submit_one(store, user_id="u2")

    # When the list is read two at a time, while a new job comes in
    wanted = JobFilter(user_id="u1")
    first = await store.jobs.list_jobs(wanted, limit=2)
    await submit_one(store, user_id="u1")
    second = await store.jobs.list_jobs(wanted, limit=2, before=first[-1].id)
    third = await store.jobs.list_jobs(wanted, limit=2, before=second[-1].id)
    after = await store.jobs.list_jobs(wanted, limit=2, before=third[-1].id)

    # Then each job came once, newest first
    assert ids([*first, *second, *third]) == ids(mine)[::-1]
    assert list(after) == []


async def test_events_come_in_order_and_page_by_page(store: Stores) -> None:
    # Given two jobs whose chunks were told in turns
    one, two = await run_one(store), await run_one(store)
    for number in range(4):
        one = await settled(store, change.advance(one, tally(), {"chunk": number}))
        two = await settled(store, change.advance(two, tally(), {"chunk": number}))

    # When the events of one are read two at a time
    pages = []
    after = 0
    for _ in range(4):
        pages.append(await store.events.list_events(one.id, after=after, limit=2))
        after = pages[-1][-1].id if pages[-1] else after

    # Then all of its own came once, in order
    told = [event for page in pages for event in page]
    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert [event.kind for event in told] == ["submitted", "chunk", "chunk", "chunk", "chunk"]
    assert [event.data.get("chunk") for event in told] == [None, 0, 1, 2, 3]
    assert [event.id for event in told] == sorted({event.id for event in told})
    assert {event.job_id for event in told} == {one.id}
    # A job that is not there has none
    assert list(await store.events.list_events("job_never", after=0, limit=10)) == []


async def test_it_is_told_how_far_jobs_are(store: Stores, clock: ManualClock) -> None:
    # Given a job that has ended, one with a chunk done, and one that has just been submitted
    ended, busy = await in_state(store, JobState.SUCCESS), await run_one(store)
    busy = await settled(store, change.advance(busy, tally(), {}))
    new = await submit_one(store)
    last = {
        job.id: (await store.events.list_events(job.id, after=0, limit=100))[-1].id
        for job in (new, busy, ended)
    }

    # When they are looked at, with one that was never there
    found = await store.events.last_events([new.id, busy.id, ended.id, "job_never"])

    # Then each is told by its last event and its state
    assert found == {
        new.id: LastEvent(last[new.id], JobState.PENDING),
        busy.id: LastEvent(last[busy.id], busy.state),
        ended.id: LastEvent(last[ended.id], JobState.SUCCESS),
    }
    assert await store.events.last_events([]) == {}
    # And one whose events were pruned is still there
    clock.advance(3600)
    await store.events.prune_events(older_than=timedelta(minutes=1), limit=100)
    assert await store.events.last_events([new.id]) == {new.id: LastEvent(0, JobState.PENDING)}


USERS: tuple[str | None, ...] = (None, "ada", "nobody")
CONNECTIONS: tuple[str | None, ...] = (None, "c0", "nowhere")
NAMES: tuple[str | None, ...] = (None, "notes", "unknown")
MODES = (None, Mode.HISTORY, Mode.LIMIT)
STATES = ((), (JobState.FAILED,), (JobState.SUCCESS, JobState.PENDING), JOB.active)


async def all_sorts_of_jobs(store: Stores) -> list[Job]:
    """Jobs in many states, of two users, connections, syncs and modes, the newest first."""
    ended = (JobState.SUCCESS, JobState.FAILED, JobState.CANCELLED, JobState.SUCCESS)
    places = product(("notes", "other"), ("c0", "c1"), ("ada", "bob"))
    jobs = [
        await in_state(store, state, sync=sync, connection_id=connection, user_id=user, mode=mode)
        for sync, connection, user in places
        for state, mode in zip(ended, (Mode.FULL, Mode.HISTORY, Mode.FULL, Mode.FULL), strict=True)
    ]
    for sync, state, mode in (
        ("notes", JobState.PAUSED, Mode.HISTORY),
        ("other", JobState.PENDING, Mode.FULL),
    ):
        jobs.append(await in_state(store, state, sync=sync, connection_id="c0", mode=mode))
    return jobs[::-1]


async def test_every_list_is_what_its_filter_says(store: Stores) -> None:
    # Given all sorts of jobs
    jobs = await all_sorts_of_jobs(store)

    filters = list(product(USERS, CONNECTIONS, NAMES, MODES, STATES))
    # Every eleventh: each value meets each other.
    for user, connection, sync, mode, states in filters[::11]:
        # When they are listed by any filter, page by page
        which = JobFilter(
            user_id=user, connection_id=connection, sync=sync, mode=mode, states=states
        )
        listed: list[str] = []
        while page := await store.jobs.list_jobs(
            which, limit=4, before=listed[-1] if listed else None
        ):
            listed += ids(page)

        # Then all that match are there, in order, and no others
        wanted = [
            job
            for job in jobs
            if user in (None, job.user_id)
            and connection in (None, job.connection_id)
            and sync in (None, job.sync)
            and mode in (None, job.mode)
            and (not states or job.state in states)
        ]
        assert listed == ids(wanted), which
