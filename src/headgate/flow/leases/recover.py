"""Recovery: rescues rows of lost workers, ends late cancels, and thaws jobs after a cool-down."""

from collections.abc import Callable, Sequence

from headgate.base.errors import StoreFault
from headgate.flow.items.fetch import NO_COLLECTIONS, Collections, ItemFetcher
from headgate.flow.jobs.hooks import call_on_end
from headgate.flow.leases.claims import ActiveClaims, LeasedWork
from headgate.flow.leases.rescue import BATCH_MAX, rescue_expired, settle_in_rounds
from headgate.flow.runtime import Runtime
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.item import Item, ItemChange
from headgate.model.job import Job, Lane, Reason
from headgate.model.states import ITEM, JOB
from headgate.policy import items as item_policy
from headgate.policy import retry
from headgate.ports.items import ItemStore
from headgate.ports.signal import job_hints, lane_topic


def leased_work(rt: Runtime, jobs: ActiveClaims[Job]) -> Sequence[LeasedWork]:
    """Every leased type that a worker process extends and sweeps."""

    async def sweep_jobs() -> int:
        return await rescue_jobs(rt) + await thaw_paused(rt)

    items = [] if rt.fetching is None else [item_work(rt.fetching, rt.database.find_fault)]
    deliveries = [] if rt.drainer is None else [LeasedWork(rt.drainer.claims, rt.drainer.rescue)]
    return (
        LeasedWork(jobs, sweep_jobs),
        *items,
        *deliveries,
        *rt.leased,
    )


def item_work(
    fetching: ItemFetcher, find_fault: Callable[[], StoreFault | None] = lambda: None
) -> LeasedWork:
    """The claims on items, and how they are swept."""

    async def sweep_items() -> int:
        counts = find_fault() is None
        rescued = await rescue_items(fetching.items, fetching.collections, counts=counts)
        fetching.measurements.rescues.add(ITEM.name, rescued)
        return rescued

    return LeasedWork(fetching.claims, sweep_items)


async def rescue_items(
    items: ItemStore, collections: Collections = NO_COLLECTIONS, *, counts: bool = True
) -> int:
    """Rescue items of lost workers; returns how many. With `counts`, each counts a crash."""

    def rescue(item: Item) -> ItemChange:
        known = collections.get(item.collection)
        policy = None if known is None else known.retry
        return item_policy.rescue(item, policy, counts=counts)

    return await rescue_expired(items, rescue)


# ---- jobs --------------------------------------------------------------------------------------


async def rescue_jobs(rt: Runtime) -> int:
    """Rescue jobs of lost workers, and end cancels past their deadline; returns how many."""
    rescued: list[Job] = []

    def note(job: Job) -> None:
        rescued.append(job)
        call_on_end(rt.registry, job)

    await rescue_expired(rt.jobs, lambda job: _rescue_job(rt, job), note)
    rt.measurements.rescues.add(JOB.name, len(rescued))
    return await _announce(rt, rescued)


async def thaw_paused(rt: Runtime) -> int:
    """Thaw the jobs whose cool-down is over; returns how many."""
    thawed: list[Job] = []
    await settle_in_rounds(
        rt.jobs,
        lambda: rt.breakers.list_thawable(limit=BATCH_MAX),
        lambda job: change.thaw(job, probe=job.reason is Reason.BREAKER),
        thawed.append,
    )
    return await _announce(rt, thawed)


async def free_probes(rt: Runtime) -> None:
    """Pause probes that no live worker can run, so that another job can be the probe."""
    probes = [
        job for job in await rt.breakers.list_waiting_probes() if rt.registry.find(job.sync) is None
    ]
    if probes:
        workers = await rt.workers.live_workers()
        stuck = [job for job in probes if not any(each.can_run(job) for each in workers)]
        await rt.jobs.settle_many([(change.pass_probe_on(job), None) for job in stuck])


def _rescue_job(rt: Runtime, job: Job) -> JobChange:
    sync = rt.registry.find(job.sync)
    policy = None if sync is None else sync.retry
    # Workers that cannot write cannot extend their leases either.
    counts = rt.database.find_fault() is None
    return retry.rescue(job, policy, draw=rt.rng.random(), counts=counts)


async def _announce(rt: Runtime, changed: Sequence[Job]) -> int:
    """Wake the lanes if there are jobs for them; returns how many there are."""
    if changed:
        for lane in Lane:
            due = job_hints(job for job in changed if job.lane is lane)
            await rt.signal.announce(lane_topic(lane), due)
    return len(changed)
