"""What is ahead of a job: what is known about it and its limits, for the estimates of its end.

The forecast of a backfill and the estimate of a running job are made here, from the same facts.
"""

from collections.abc import Mapping

import msgspec

from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.model.budget import BudgetUse
from headgate.model.forecast import Finish
from headgate.model.job import Job, Lane, Mode
from headgate.model.pace import Pace
from headgate.model.states import JOB, JobState
from headgate.policy.forecast import (
    CHUNKS_MIN,
    EARLIER_CHUNKS,
    NeedsRange,
    PaceInputs,
    finish_of,
    needs_of,
    with_earlier,
)
from headgate.policy.windows_ahead import LimitsAhead
from headgate.ports.jobs.store import JobFilter

#: The most other backfills that are taken into account.
OTHERS_MAX = 100
#: The most earlier jobs of the user, and of others, whose pace is read.
EARLIER_MAX, PACES_MAX = 3, 20


class JobAhead(msgspec.Struct, frozen=True, kw_only=True):
    """The job that an estimate is about, stored or not."""

    #: None for one that is not stored yet.
    job_id: str | None
    sync: str
    connection_id: str
    #: The connection that each provider is asked with.
    connections: Mapping[str, str | None]
    lane: Lane = Lane.COLD
    pace: Pace = Pace()

    @staticmethod
    def of(job: Job) -> "JobAhead":
        """A stored job."""
        connections: dict[str, str | None] = {job.source: job.connection_id}
        if job.destination is not None:
            connections.setdefault(job.destination, job.destination_connection_id)
        return JobAhead(
            job_id=job.id,
            sync=job.sync,
            connection_id=job.connection_id,
            connections=connections,
            lane=job.lane,
            pace=job.summary.pace,
        )


async def finish_of_job(rt: Runtime, job: Job) -> Finish | None:
    """When a job whose end is foreseeable ends; None if nothing is known of its pace.

    The estimate begins at the last change of the job, so it stays the same while nothing happens.
    """
    assert job.progress.total is not None
    subject, sync = JobAhead.of(job), rt.registry.find(job.sync)
    left = max(0, job.progress.total - job.progress.done)
    needs = await needs_ahead(rt, subject, sync, left)
    if needs is None:
        return None
    start = max(job.updated_at, job.wake_at) if job.wake_at else job.updated_at
    return finish_of(left, needs, await limits_ahead(rt, subject), start=start)


async def needs_ahead(
    rt: Runtime, subject: JobAhead, sync: Sync | None, units: float
) -> NeedsRange | None:
    """What each unit that is left needs; None if nothing is known about it."""
    pace = subject.pace
    if pace.chunks < EARLIER_CHUNKS:
        pace = with_earlier(pace, await _earlier(rt, subject))
    others: list[Pace] = []
    if pace.chunks < CHUNKS_MIN:
        done = JobFilter(sync=subject.sync, states=(JobState.SUCCESS,))
        found = await rt.jobs.list_jobs(done, limit=PACES_MAX)
        others = [each.summary.pace for each in found]
    costs = () if sync is None else sync.day_costs
    return needs_of(PaceInputs(own=pace, others=others, costs=costs), units)


async def limits_ahead(rt: Runtime, subject: JobAhead) -> LimitsAhead:
    """The limits that the job meets, how much of them is used, and who else needs them."""
    uses: dict[str, BudgetUse] = {}
    for provider, connection_id in subject.connections.items():
        budget = rt.registry.budgets.get(provider)
        if budget is not None:
            use = await rt.gates.use(budget, connection_id=connection_id)
            if use is not None:
                uses[provider] = use
    active = JobFilter(mode=Mode.HISTORY, states=JOB.active)
    others = await rt.jobs.list_jobs(active, limit=OTHERS_MAX)
    return LimitsAhead(
        budgets=rt.registry.budgets,
        uses=uses,
        others=[_units_left(job) for job in others if _competes(job, subject)],
        hot=subject.lane is Lane.HOT,
    )


async def _earlier(rt: Runtime, subject: JobAhead) -> list[Pace]:
    same = JobFilter(sync=subject.sync, connection_id=subject.connection_id)
    found = await rt.jobs.list_jobs(same, limit=EARLIER_MAX)
    return [each.summary.pace for each in found if each.id != subject.job_id]


def _competes(job: Job, subject: JobAhead) -> bool:
    """Whether another job takes from the same limits now."""
    if job.connection_id == subject.connection_id or job.state is JobState.PAUSED:
        return False
    return job.source in subject.connections or job.destination in subject.connections


def _units_left(job: Job) -> float:
    return float(max(0, (job.progress.total or 0) - job.progress.done))
