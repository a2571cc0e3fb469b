"""The store of coverage."""

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from headgate.model.record import CoverageRow
from headgate.ports.jobs.submission import NewJob


class CoverageStore(Protocol):
    """The coverage of the days of a connection's history."""

    async def list_days(
        self, sync: str, connection_id: str, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """The coverage of the days from `start` to `end`, both included, in order."""
        ...

    async def covered_days(self, new: Sequence[NewJob]) -> Sequence[Sequence[CoverageRow]]:
        """For each new job, the coverage of its days whose records went to the same destination."""
        ...

    async def list_gaps(
        self, job_id: str, sync: str, connection_id: str, *, limit: int
    ) -> Sequence[CoverageRow]:
        """Days of the job that failed or are incomplete, the newest first."""
        ...
