"""Recovery: rescues rows of lost workers, ends late cancels, and thaws jobs after a cool-down."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headgate.flow.claims import ActiveClaims, LeasedWork
from headgate.flow.fetch_item import NO_COLLECTIONS, Collections, ItemFetcher
from headgate.flow.runtime import Runtime
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.item import Item, ItemChange
from headgate.model.job import Job, Lane, Reason
from headgate.model.lease import AnyChange, Row
from headgate.model.states import ITEM, JOB
from headgate.policy import items as item_policy
from headgate.policy import retry
from headgate.ports.items import ItemStore
from headgate.ports.leases import Leases
from headgate.ports.signal import lane_topic

#: The most rows in one transaction.
BATCH_MAX = 200
#: The most rounds in one sweep; then other work gets a turn.
ROUNDS_MAX = 50


def leased_work(rt: Runtime, jobs: ActiveClaims[Job]) -> Sequence[LeasedWork]:
    """Every leased type that a worker process extends and sweeps."""

    async def sweep_jobs() -> int:
        return await rescue_jobs(rt) + await thaw_paused(rt)

    return (LeasedWork(jobs, sweep_jobs), item_work(rt.fetching), *rt.leased)


def item_work(fetching: ItemFetcher) -> LeasedWork:
    """The claims on items, and how they are swept."""

    async def sweep_items() -> int:
        rescued = await rescue_items(fetching.items, fetching.collections)
        fetching.measurements.rescues.add(ITEM.name, rescued)
        return rescued

    return LeasedWork(fetching.claims, sweep_items)


async def rescue_items(items: ItemStore, collections: Collections = NO_COLLECTIONS) -> int:
    """Rescue items of lost workers; returns how many."""

    def rescue(item: Item) -> ItemChange:
        known = collections.get(item.collection)
        return item_policy.rescue(item, None if known is None else known.retry)

    return await rescue_expired(items, rescue)


async def rescue_expired(
    leases: Leases[Row, AnyChange, Any], rescue: Callable[[Row], AnyChange]
) -> int:
    """Rescue rows of lost workers with the change that `rescue` makes; returns how many."""
    return await _settle_in_rounds(leases, lambda: leases.list_expired(limit=BATCH_MAX), rescue)


async def _settle_in_rounds(
    leases: Leases[Row, AnyChange, Any],
    find_rows: Callable[[], Awaitable[Sequence[Row]]],
    make_change: Callable[[Row], AnyChange],
) -> int:
    total = 0
    for _ in range(ROUNDS_MAX):
        found = await find_rows()
        if found:
            changed = await leases.settle_many([(make_change(row), None) for row in found])
            total += sum(row is not None for row in changed)
        if len(found) < BATCH_MAX:
            break
    return total


# ---- jobs --------------------------------------------------------------------------------------


async def rescue_jobs(rt: Runtime) -> int:
    """Rescue jobs of lost workers, and end cancels past their deadline; returns how many."""
    rescued = await rescue_expired(rt.store, lambda job: _rescue_job(rt, job))
    rt.measurements.rescues.add(JOB.name, rescued)
    return await _announce(rt, rescued)


async def thaw_paused(rt: Runtime) -> int:
    """Thaw the jobs whose cool-down is over; returns how many."""
    thawed = await _settle_in_rounds(
        rt.store,
        lambda: rt.store.list_thawable(limit=BATCH_MAX),
        lambda job: change.thaw(job, probe=job.reason is Reason.BREAKER),
    )
    return await _announce(rt, thawed)


async def free_probes(rt: Runtime) -> None:
    """Pause probes that no live worker can run, so that another job can be the probe."""
    probes = [
        job for job in await rt.store.list_waiting_probes() if rt.registry.find(job.sync) is None
    ]
    if probes:
        workers = await rt.store.live_workers()
        stuck = [job for job in probes if not any(each.can_run(job) for each in workers)]
        await rt.store.settle_many([(change.pass_probe_on(job), None) for job in stuck])


def _rescue_job(rt: Runtime, job: Job) -> JobChange:
    sync = rt.registry.find(job.sync)
    return retry.rescue(job, None if sync is None else sync.retry, draw=rt.rng.random())


async def _announce(rt: Runtime, count: int) -> int:
    """Wake the lanes if there are jobs for them; returns `count`."""
    if count:
        for lane in Lane:
            await rt.signal.announce(lane_topic(lane))
    return count
