"""Chunks that jobs settle: with records or other work, and what was counted of them."""

from typing import Any

from headgate.model import change
from headgate.model.job import Job
from headgate.model.record import Record
from headgate.ports.jobs.store import ChunkWork
from tests.store_bundles import Stores
from tests.stores import tally


async def bring(store: Stores, job: Job, *records: Record, **work: Any) -> Job:
    """Settle a chunk with these records or other work; the counts begin anew."""
    after = await store.jobs.settle(
        change.advance(job, tally(), {}), ChunkWork(records=list(records), **work)
    )
    assert after is not None
    return after


def counts(job: Job) -> tuple[int, int, int]:
    """What became of the records of the last chunk."""
    return job.summary.inserted, job.summary.updated, job.summary.unchanged


async def held(store: Stores, job: Job) -> list[Record]:
    """All records of the job's sync and connection."""
    return list(await store.records.list_records(job.sync, job.connection_id, limit=10_000))
