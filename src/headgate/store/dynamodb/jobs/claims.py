"""Claims of jobs: by a message that names one, or the longest waiting of a lane.

The index says which jobs may be due, and may be behind. The claim itself is one conditional write
of the row, so nobody gets a job that another has, and a stale entry claims nothing.
"""

from collections.abc import Sequence
from datetime import timedelta

from headgate.model.job import Job, Lane, Reason
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.hints import DueJobs
from headgate.ports.jobs.store import JobClaimResult, RowAttribute
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import AT_ONCE_MAX, gather_most
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import BY_STATE
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.port import DynamoPort
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Update, is_one_of, set_and_remove
from headgate.store.dynamodb.jobs.leases import claimed_index
from headgate.store.dynamodb.jobs.rows import (
    CODEC,
    further_attributes,
    job_id_of,
    pending_shards,
    read_jobs,
    time_of,
)

#: When to claim again if another claim took what this one saw.
CROWDED_S = 0.05
#: Besides the wanted ones, so many due jobs are looked at: others may claim the same at once.
_SPARE = AT_ONCE_MAX


async def claim_job(
    table: DynamoTable,
    job_id: str,
    *,
    step: int | None,
    syncs: Sequence[str],
    attributes: Sequence[RowAttribute],
    worker: str,
    lease: timedelta,
) -> Job | None:
    """Claim that job in one write, if it is due, of one of these syncs, and at that step."""
    if not syncs:
        return None
    now = table.now()
    is_own, own = is_one_of("sync", syncs)
    can_be_claimed, sources = is_one_of("state", [each.value for each in JOB.claim.sources])
    conditions = [can_be_claimed, "#wake_at <= :now", is_own]
    if step is not None:
        conditions.append("#steps = :step")
    fields = {
        "state": JOB.claim.target,
        "reason": Reason.WORKING,
        "lease_until": now + lease,
        "worker": worker,
        "wake_at": None,
        "attempted_at": now,
        "updated_at": now,
    }
    written = {
        **{name: plain(value) for name, value in fields.items()},
        **claimed_index(job_id, now + lease),
        **further_attributes(fields, attributes),
    }
    change = set_and_remove(written).replace(
        "SET ",
        "SET #token = #token + :one, #started_at = if_not_exists(#started_at, :now), ",
        1,
    )
    update = Update(
        at=keys.job(job_id),
        change=change,
        condition=" AND ".join(conditions),
        values={**written, **sources, **own, "step": step, "one": 1, "now": plain(now)},
    )
    try:
        item = await table.write(update)
    except ConditionFailed:
        return None
    assert item is not None
    return CODEC.from_item(item)


async def claim(
    table: DynamoTable,
    lane: Lane,
    *,
    syncs: Sequence[str],
    attributes: Sequence[RowAttribute],
    worker: str,
    limit: int,
    lease: timedelta,
) -> JobClaimResult:
    """Claim up to `limit` due jobs of the lane, the longest waiting first."""
    due, next_due_s = await _find_due(table, lane, syncs, limit=limit + _SPARE)
    claimed: list[Job] = []
    missed = 0
    while due and len(claimed) < limit:
        wanted = limit - len(claimed)
        some, due = due[:wanted], due[wanted:]
        found, errors = await gather_most(
            claim_job(
                table,
                job_id_of(each),
                step=None,
                syncs=syncs,
                attributes=attributes,
                worker=worker,
                lease=lease,
            )
            for each in some
        )
        claimed += [job for job in found if job is not None]
        missed += found.count(None)
        if errors:
            # What is claimed is worked on: else nobody would, until its lease ends.
            if not claimed:
                raise errors[0]
            return JobClaimResult(claimed, 0.0)
    if len(claimed) == limit:
        return JobClaimResult(claimed, None)
    return JobClaimResult(claimed, CROWDED_S if missed else next_due_s)


async def list_due(table: DynamoTable, lane: Lane, *, syncs: Sequence[str], limit: int) -> DueJobs:
    """Due jobs of the lane and of these syncs, the longest waiting first."""
    now = table.now()
    due, _ = await _find_due(table, lane, syncs, limit=limit)
    jobs = [
        job
        for job in await read_jobs(table, due)
        if job.state is JobState.PENDING and job.wake_at is not None and job.wake_at <= now
    ]
    return DueJobs(jobs, now)


async def _find_due(
    table: DynamoTable, lane: Lane, syncs: Sequence[str], *, limit: int
) -> tuple[list[Attributes], float | None]:
    """The entries of due jobs, at most so many, and seconds until the next is due."""
    now = table.now()
    entries = await table.query_shards(BY_STATE, pending_ranges(lane, syncs), limit=limit)
    due = [entry for entry in entries if time_of(entry) <= now]
    later = entries[len(due) :]
    return due, (time_of(later[0]) - now).total_seconds() if later else None


def pending_ranges(lane: Lane, syncs: Sequence[str]) -> list[KeyRange]:
    """The pending jobs of these syncs in the index, by the time when they are due."""
    return [
        KeyRange(pk=shard, index=BY_STATE) for sync in syncs for shard in pending_shards(lane, sync)
    ]


class DynamoHintedClaims(DynamoPort):
    """Jobs in DynamoDB, claimed as messages name them."""

    def __init__(
        self, table: DynamoTable, syncs: Sequence[str], attributes: Sequence[RowAttribute] = ()
    ) -> None:
        """Use `table`, which must be open, for an application with these syncs."""
        super().__init__(table)
        self._syncs = tuple(syncs)
        self._attributes = attributes

    async def claim_job(
        self, job_id: str, *, step: int | None, worker: str, lease: timedelta
    ) -> Job | None:
        return await claim_job(
            self.table,
            job_id,
            step=step,
            syncs=self._syncs,
            attributes=self._attributes,
            worker=worker,
            lease=lease,
        )

    async def list_due(self, lane: Lane, *, limit: int) -> DueJobs:
        return await list_due(self.table, lane, syncs=self._syncs, limit=limit)
