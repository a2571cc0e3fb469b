"""Fairness: users share a lane, not jobs. Nobody's long line keeps another waiting."""

import asyncio
import random
from collections import Counter, defaultdict

import pytest

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.job import Lane
from tests.profiles import seeds
from tests.store_bundles import SqlStores
from tests.stores import LEASE, claim_ids, claim_one, new_job, settled, submit_one, tally

pytestmark = pytest.mark.slow


async def serve(store: SqlStores, count: int) -> list[str]:
    """The users of the next `count` jobs, in the order in which they are served."""
    return [(await claim_one(store)).user_id for _ in range(count)]


async def submit_for(store: SqlStores, user_id: str, count: int) -> None:
    for _ in range(count):
        await store.jobs.submit(new_job(user_id=user_id))


async def test_users_who_come_later_are_served_before_a_long_line(sql_store: SqlStores) -> None:
    # Given a user with two hundred jobs, and then three users with one job each
    await submit_for(sql_store, "many", 200)
    for user_id in ("a", "b", "c"):
        await submit_for(sql_store, user_id, 1)

    # When the next jobs are served
    served = await serve(sql_store, 5)

    # Then the three wait for two of the two hundred: the turn being served, and their own
    assert served == ["many", "many", "a", "b", "c"]
    # And when half of the line is served, newcomers do not wait for the other half
    await sql_store.jobs.claim(Lane.COLD, worker="w", limit=100, lease=LEASE)
    for user_id in ("d", "e", "f"):
        await submit_for(sql_store, user_id, 1)
    assert await serve(sql_store, 5) == ["many", "many", "d", "e", "f"]


async def test_users_with_many_jobs_take_turns(sql_store: SqlStores) -> None:
    # Given three users whose jobs came all at once, one user after the other
    for user_id in ("a", "b", "c"):
        await submit_for(sql_store, user_id, 10)

    # When thirteen jobs are served
    served = await serve(sql_store, 13)

    # Then, after the turn being served when the others came, each has one in every turn
    assert served == ["a", *["a", "b", "c"] * 4]


async def test_sleepers_that_wake_together_take_turns_by_user(
    sql_store: SqlStores, clock: ManualClock
) -> None:
    # Given a user with twenty sleepers and, waking last of all, one with a single one
    for _ in range(20):
        await submit_one(sql_store, user_id="many", delay_s=10)
    await submit_one(sql_store, user_id="one", delay_s=20)

    # When all have come due
    clock.advance(60)

    # Then the single one waits for one of the twenty
    assert await serve(sql_store, 3) == ["many", "one", "many"]


async def test_a_job_that_rests_goes_behind_the_others(
    sql_store: SqlStores, clock: ManualClock
) -> None:
    # Given two users with one long job each, and a worker that takes slices
    await submit_for(sql_store, "a", 1)
    await submit_for(sql_store, "b", 1)
    served = []

    # When slice after slice ends with more to do
    for _ in range(10):
        job = await claim_one(sql_store)
        served.append(job.user_id)
        clock.advance(1)
        await settled(sql_store, change.rest(job, tally(), {}))

    # Then they alternate
    assert served == ["a", "b"] * 5


async def test_a_single_job_that_rests_gets_a_third_of_the_turns_beside_a_long_line(
    sql_store: SqlStores, clock: ManualClock
) -> None:
    # Given a user with a long line, and then one with a single long job
    await submit_for(sql_store, "many", 30)
    await submit_for(sql_store, "one", 1)
    served: Counter[str] = Counter()

    # When twenty slices are served, and the long job has more to do after each of its own
    for _ in range(20):
        job = await claim_one(sql_store)
        served[job.user_id] += 1
        clock.advance(1)
        if job.user_id == "one":
            await settled(sql_store, change.rest(job, tally(), {}))

    # Then it never waited for more than two of the others'
    assert served == {"many": 14, "one": 6}


@pytest.mark.fault(39)
async def test_jobs_that_keep_coming_back_do_not_starve_a_line(
    sql_store: SqlStores, clock: ManualClock
) -> None:
    # Given a line, and two users whose single jobs rest and rejoin again and again
    await submit_for(sql_store, "many", 10)
    for user_id in ("a", "b"):
        await submit_for(sql_store, user_id, 1)
    served: Counter[str] = Counter()

    # When thirty slices are served
    for _ in range(30):
        job = await claim_one(sql_store)
        served[job.user_id] += 1
        clock.advance(1)
        if job.user_id != "many":
            await settled(sql_store, change.rest(job, tally(), {}))

    # Then the line moved as fast as they did
    assert served["many"] == 10


async def test_a_user_in_one_lane_takes_no_turns_in_the_other(sql_store: SqlStores) -> None:
    # Given a user with a long line in the cold lane, and two jobs in the hot one
    await submit_for(sql_store, "a", 50)
    mine = [await submit_one(sql_store, user_id="a", lane=Lane.HOT) for _ in range(2)]
    other = await submit_one(sql_store, user_id="b", lane=Lane.HOT)

    # When the hot lane is served
    served = await claim_ids(sql_store, 3, Lane.HOT)

    # Then the cold line did not push the user's hot jobs back, nor anybody else's
    assert served == [mine[0].id, mine[1].id, other.id]


class Line:
    """What a fair line promises, checked at every claim."""

    def __init__(self) -> None:
        self.waiting: Counter[str] = Counter()
        #: How often each user was overtaken by each other since it last moved, while in line.
        self.overtaken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.overtaken_max = 0

    def join(self, user_id: str) -> None:
        if not self.waiting[user_id]:
            self.overtaken[user_id].clear()
        self.waiting[user_id] += 1

    def serve(self, user_id: str) -> None:
        self.waiting[user_id] -= 1
        self.overtaken[user_id].clear()
        for other, count in self.waiting.items():
            if count and other != user_id:
                self.overtaken[other][user_id] += 1
                self.overtaken_max = max(self.overtaken_max, self.overtaken[other][user_id])


@pytest.mark.parametrize("seed", seeds(4, first=1))
async def test_no_user_is_overtaken_by_another_more_than_twice(
    sql_store: SqlStores, clock: ManualClock, seed: int
) -> None:
    # Given users of very different greed
    rng = random.Random(seed)
    greed = {f"user_{number}": weight for number, weight in enumerate((60, 10, 5, 1, 1, 1))}
    line = Line()

    # When they submit, rest and finish in any order
    for _ in range(250):
        clock.advance(1)
        if rng.random() < 0.5:
            [user_id] = rng.choices(list(greed), weights=list(greed.values()))
            await submit_one(sql_store, user_id=user_id)
            line.join(user_id)
        elif line.waiting.total():
            job = await claim_one(sql_store)
            line.serve(job.user_id)
            if rng.random() < 0.5:
                await settled(sql_store, change.rest(job, tally(), {}))
                line.join(job.user_id)

    # Then between two of a user's turns everybody else had two at most: one of the turn that was
    # being served, one of the next
    assert line.overtaken_max <= 2


async def test_jobs_that_rest_in_one_batch_stand_one_behind_another(sql_store: SqlStores) -> None:
    # Given one user's five running jobs, and another's one in line
    await submit_for(sql_store, "many", 5)
    running = (await sql_store.jobs.claim(Lane.COLD, worker="w", limit=5, lease=LEASE)).jobs
    await submit_for(sql_store, "one", 1)

    # When the five end their slices together
    await asyncio.gather(*[sql_store.jobs.settle(change.rest(job, tally(), {})) for job in running])

    # Then each has a turn of its own, and a newcomer stands behind the first two alone
    await submit_for(sql_store, "late", 1)
    assert await serve(sql_store, 7) == ["one", "many", "late", *["many"] * 4]
