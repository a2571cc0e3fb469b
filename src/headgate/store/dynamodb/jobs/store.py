"""The `JobStore` port on DynamoDB.

Times are those of this process's clock, corrected to agree with DynamoDB's answers: DynamoDB has
no clock for its conditions.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from headgate.model.change import JOBS, JobChange
from headgate.model.job import Job, Lane
from headgate.model.lease import LeasedType
from headgate.model.states import JobState
from headgate.ports.jobs.store import (
    ChunkWork,
    JobClaimResult,
    JobFilter,
    PrunedJobs,
    RowAttribute,
)
from headgate.ports.jobs.submission import NewJob, SubmitOutcome, SubmitResult
from headgate.ports.signal import SignalHint
from headgate.store.dynamodb.engine.port import DynamoPort, on_table
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.jobs import (
    claims,
    counts,
    leases,
    lists,
    recovery,
    retention,
    rows,
    settle,
    submit,
)


class DynamoJobs(DynamoPort):
    """Jobs in one DynamoDB table."""

    #: The description of the leased type.
    kind: LeasedType[Job, Any, Any] = JOBS

    def __init__(
        self, table: DynamoTable, syncs: Sequence[str], attributes: Sequence[RowAttribute] = ()
    ) -> None:
        """Use `table`, which must be open, for an application with these syncs.

        `attributes` are what others read of a job's row besides.
        """
        super().__init__(table)
        self._syncs = tuple(syncs)
        self._attributes = attributes
        #: Providers that are known to be among the breakers.
        self._noted: set[str] = set()

    async def submit(self, new: NewJob, hint: SignalHint | None = None) -> SubmitResult:
        # DynamoDB carries no hints, so there is none to send.
        assert hint is None
        return await submit.submit(self.table, new, attributes=self._attributes)

    async def submit_many(self, new: Sequence[NewJob]) -> Sequence[SubmitOutcome]:
        return await submit.submit_many(self.table, new, attributes=self._attributes)

    async def claim(
        self, lane: Lane, *, worker: str, limit: int, lease: timedelta
    ) -> JobClaimResult:
        return await claims.claim(
            self.table,
            lane,
            syncs=self._syncs,
            attributes=self._attributes,
            worker=worker,
            limit=limit,
            lease=lease,
        )

    async def settle(self, change: JobChange, payload: ChunkWork | None = None, /) -> Job | None:
        return await settle.settle(
            self.table, change, payload, attributes=self._attributes, noted=self._noted
        )

    async def settle_many(
        self, batch: Sequence[tuple[JobChange, ChunkWork | None]], /
    ) -> Sequence[Job | None]:
        return await settle.settle_many(
            self.table, batch, attributes=self._attributes, noted=self._noted
        )

    async def next_sweep_s(self) -> float | None:
        return await recovery.next_sweep_s(self.table, syncs=self._syncs)

    async def list_jobs(
        self, job_filter: JobFilter, *, limit: int, before: str | None = None
    ) -> Sequence[Job]:
        return await lists.list_jobs(
            self.table, job_filter, syncs=self._syncs, limit=limit, before=before
        )

    async def count_jobs(self) -> Mapping[str, Mapping[JobState, int]]:
        return await counts.count_jobs(self.table, syncs=self._syncs)

    async def oldest_due_s(self) -> Mapping[Lane, float]:
        return await counts.oldest_due_s(self.table, syncs=self._syncs)

    async def prune_jobs(
        self, *, older_than: timedelta, limit: int, after: str | None = None
    ) -> PrunedJobs:
        return await retention.prune_jobs(
            self.table, syncs=self._syncs, older_than=older_than, limit=limit, after=after
        )

    get = on_table(rows.get)
    extend = on_table(leases.extend)
    expire = on_table(leases.expire)
    list_expired = on_table(leases.list_expired)
