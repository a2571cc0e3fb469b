"""Claims by a hint: a message names a job and a step, and the row says whether it is due."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from headgate.model.job import Job, Lane


class DueJobs(NamedTuple):
    """Jobs that are due, the longest waiting first, and the time of the store that says so."""

    jobs: Sequence[Job]
    now: datetime


class HintedClaims(Protocol):
    """A store whose jobs are claimed one by one, as messages name them."""

    async def claim_job(
        self, job_id: str, *, step: int | None, worker: str, lease: timedelta
    ) -> Job | None:
        """Claim that job if it is due; None if it is not, or no longer at that step.

        The step is the job's `steps`. So a message that comes twice or late claims nothing.
        """
        ...

    async def list_due(self, lane: Lane, *, limit: int) -> DueJobs:
        """Due jobs of the lane and of this application's syncs, the longest waiting first.

        They are not claimed. A job that became due a moment ago may be missing.
        """
        ...
