"""Putting right what nobody else will: lost workers, late cancels, cooled-down breakers."""

from datetime import timedelta

from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.model import change
from headgate.model.change import Change
from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from headgate.policy.retry import RetryPolicy, backoff
from headgate.ports.signal import lane_topic

#: Jobs put right in one transaction, at most.
BATCH_MAX = 200
#: Rounds in one sweep, at most: then others get a turn.
ROUNDS_MAX = 50


async def rescue_expired(rt: Runtime) -> int:
    """Take jobs from workers that are gone."""
    total = 0
    for _ in range(ROUNDS_MAX):
        found = await rt.store.expired(limit=BATCH_MAX)
        changes = [_rescued(rt, job) for job in found]
        total += await _sweep(rt, changes)
        if len(found) < BATCH_MAX:
            break
    return total


async def thaw_paused(rt: Runtime) -> int:
    """Let go on what has cooled down."""
    total = 0
    for _ in range(ROUNDS_MAX):
        found = await rt.store.thawable(limit=BATCH_MAX)
        changes = [change.thaw(job, probe=job.reason is Reason.BREAKER) for job in found]
        total += await _sweep(rt, changes)
        if len(found) < BATCH_MAX:
            break
    return total


def _rescued(rt: Runtime, job: Job) -> Change:
    if job.state is JobState.CANCELLING:
        # Its worker is gone, or had until the deadline.
        return change.cancel(job, Reason.CANCEL_DEADLINE)
    sync: Sync | None = rt.registry.find(job.sync)
    policy = sync.retry if sync else RetryPolicy()
    if job.crashes + 1 >= policy.crashes_max:
        return change.give_up(job)
    # The first rescue is at once: a deploy is the usual cause. A chunk that kills its workers
    # comes back ever more slowly.
    again = backoff(job.crashes, policy, draw=rt.rng.random()) if job.crashes else timedelta(0)
    return change.rescue(job, after=again)


async def _sweep(rt: Runtime, changes: list[Change]) -> int:
    if not changes:
        return 0
    applied = await rt.store.sweep(changes)
    if applied:
        for lane in sorted({each.after.lane for each in changes}):
            await rt.signal.announce(lane_topic(lane))
    return applied
