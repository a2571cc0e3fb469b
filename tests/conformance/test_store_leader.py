"""Leadership: one at a time, by a term that runs out, and what an old leader does is refused."""

import asyncio
from datetime import timedelta

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.job import Job
from headgate.model.states import JobState
from headgate.ports.store import Leader
from headgate.store.sql.store import SqlStore
from tests.stores import everything, kinds, run_one, settled, tally

TERM = timedelta(seconds=60)


async def lead(store: SqlStore, holder: str, name: str = "sweeper") -> Leader:
    """Become leader, which must succeed."""
    leader = await store.lead(name, holder=holder, term=TERM)
    assert leader is not None
    return leader


async def test_the_first_to_ask_leads_and_others_wait(store: SqlStore, clock: ManualClock) -> None:
    assert await lead(store, "a") == Leader("sweeper", 1)
    clock.advance(59)

    assert await store.lead("sweeper", holder="b", term=TERM) is None


async def test_a_leader_that_asks_again_stays_one_for_another_term(
    store: SqlStore, clock: ManualClock
) -> None:
    # Given a leader in the middle of its term
    first = await lead(store, "a")
    clock.advance(40)

    # When it asks again, and its first term is over
    again = await lead(store, "a")
    clock.advance(40)

    # Then it is the same term, and longer
    assert again == first
    assert await store.lead("sweeper", holder="b", term=TERM) is None


async def test_a_term_that_is_over_makes_room_for_another(
    store: SqlStore, clock: ManualClock
) -> None:
    first = await lead(store, "a")
    clock.advance(60)

    assert await lead(store, "b") == Leader("sweeper", first.token + 1)


async def test_a_leader_that_comes_back_after_its_term_begins_a_new_one(
    store: SqlStore, clock: ManualClock
) -> None:
    first = await lead(store, "a")
    clock.advance(61)

    assert (await lead(store, "a")).token == first.token + 1


async def test_a_leader_that_resigns_leaves_the_seat_at_once(store: SqlStore) -> None:
    first = await lead(store, "a")

    await store.resign(first)

    assert (await lead(store, "b")).token == first.token + 1


async def test_an_old_leader_cannot_resign_for_its_successor(
    store: SqlStore, clock: ManualClock
) -> None:
    old = await lead(store, "a")
    clock.advance(60)
    new = await lead(store, "b")

    await store.resign(old)

    assert await store.lead("sweeper", holder="c", term=TERM) is None
    assert await lead(store, "b") == new


async def test_each_seat_has_a_leader_of_its_own(store: SqlStore) -> None:
    await lead(store, "a", "sweeper")

    assert await lead(store, "b", "scheduler") == Leader("scheduler", 1)


async def test_of_many_who_ask_at_once_one_leads(store: SqlStore) -> None:
    answers = await asyncio.gather(
        *(store.lead("sweeper", holder=f"holder_{number}", term=TERM) for number in range(10))
    )

    assert len([answer for answer in answers if answer is not None]) == 1


async def test_a_leader_is_told_when_something_is_due(store: SqlStore, clock: ManualClock) -> None:
    # Given nothing that could come due
    assert (await lead(store, "a")).due_s is None

    # When a job is claimed for a minute, and a quarter of it has passed
    await run_one(store)
    clock.advance(15)

    # Then the leader hears, with its term, when to look
    assert (await lead(store, "a")).due_s == await store.next_sweep_s() == 45.0


# ---- what a leader does ------------------------------------------------------------------------


async def lose_two(store: SqlStore, clock: ManualClock) -> list[Job]:
    """Two jobs whose worker is gone."""
    jobs = [await run_one(store), await run_one(store)]
    clock.advance(61)
    return jobs


async def test_a_sweep_applies_what_still_holds_and_counts_it(
    store: SqlStore, clock: ManualClock
) -> None:
    # Given two lost jobs, of which one has meanwhile been settled
    gone, back = await lose_two(store, clock)
    await settled(store, change.advance(back, tally(), {}))
    leader = await lead(store, "a")

    # When the leader sweeps both
    changes = [change.rescue(job, after=timedelta(0)) for job in (gone, back)]
    swept = await store.sweep(changes, leader)

    # Then the one that is gone is rescued, and the other left alone
    assert swept == 1
    assert (await store.get(gone.id)).state is JobState.PENDING
    assert (await store.get(back.id)).state is JobState.RUNNING


async def test_a_sweep_of_nothing_counts_nothing(store: SqlStore) -> None:
    assert await store.sweep([], await lead(store, "a")) == 0


async def test_an_old_leaders_sweep_is_refused(store: SqlStore, clock: ManualClock) -> None:
    # Given a leader that was paused past its term, while another took the seat
    jobs = await lose_two(store, clock)
    old = await lead(store, "a")
    clock.advance(60)
    new = await lead(store, "b")
    before = await everything(store)
    changes = [change.rescue(job, after=timedelta(0)) for job in jobs]

    # When it goes on to sweep, then nothing is written
    assert await store.sweep(changes, old) == 0
    assert await everything(store) == before
    # And the new leader's sweep takes effect
    assert await store.sweep(changes, new) == 2


async def test_a_leader_of_another_seat_or_of_none_does_not_sweep(
    store: SqlStore, clock: ManualClock
) -> None:
    [lost, _] = await lose_two(store, clock)
    await lead(store, "a", "sweeper")
    await store.resign(await lead(store, "b", "scheduler"))
    await lead(store, "c", "scheduler")

    wanted = [change.rescue(lost, after=timedelta(0))]

    assert await store.sweep(wanted, Leader("scheduler", 1)) == 0
    assert await store.sweep(wanted, Leader("nothing", 1)) == 0


# ---- pruning -----------------------------------------------------------------------------------


async def tell(store: SqlStore, clock: ManualClock, count: int) -> Job:
    """A job with `count` events, ten seconds apart, the last one now."""
    job = await run_one(store)
    for _ in range(count - 1):
        clock.advance(10)
        job = await settled(store, change.advance(job, tally(), {}))
    return job


async def test_old_events_are_pruned_and_young_ones_kept(
    store: SqlStore, clock: ManualClock
) -> None:
    # Given five events, 40, 30, 20, 10 and 0 seconds old
    job = await tell(store, clock, 5)
    leader = await lead(store, "a")

    # When those older than twenty seconds are pruned
    pruned = await store.prune_events(leader, older_than=timedelta(seconds=20), limit=100)

    # Then two are gone, and the job is as it was
    assert pruned == 2
    assert await kinds(store, job.id) == ["chunk"] * 3
    assert await store.get(job.id) == job


async def test_one_prune_deletes_at_most_its_limit_the_oldest_first(
    store: SqlStore, clock: ManualClock
) -> None:
    # Given five old events
    job = await tell(store, clock, 5)
    told = await store.events(job.id, after=0, limit=100)
    clock.advance(3600)
    leader = await lead(store, "a")

    # When they are pruned two at a time
    pruned, left = [], []
    for _ in range(4):
        pruned.append(await store.prune_events(leader, older_than=timedelta(seconds=20), limit=2))
        left.append(await store.events(job.id, after=0, limit=100))

    # Then each round took the two oldest that were left
    assert pruned == [2, 2, 1, 0]
    assert left == [told[2:], told[4:], [], []]


async def test_an_event_after_a_prune_gets_an_id_of_its_own(
    store: SqlStore, clock: ManualClock
) -> None:
    # Given a job all of whose events are pruned
    job = await tell(store, clock, 3)
    [*_, last] = await store.events(job.id, after=0, limit=100)
    clock.advance(3600)
    await store.prune_events(await lead(store, "a"), older_than=timedelta(0), limit=100)

    # When the next thing is told
    await settled(store, change.advance(job, tally(), {}))

    # Then a reader that has seen the last event still sees the new one
    assert [event.kind for event in await store.events(job.id, after=last.id, limit=9)] == ["chunk"]


async def test_an_old_leader_does_not_prune(store: SqlStore, clock: ManualClock) -> None:
    # Given old events, and a leader whose seat is another's
    job = await tell(store, clock, 3)
    old = await lead(store, "a")
    clock.advance(3600)
    await lead(store, "b")

    # When it prunes, then nothing is deleted
    assert await store.prune_events(old, older_than=timedelta(0), limit=100) == 0
    assert len(await kinds(store, job.id)) == 3
