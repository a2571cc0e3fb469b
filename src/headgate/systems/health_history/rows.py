"""A job as the specification's table `HistoricalJobs` has it: its statuses, and its attributes.

On DynamoDB a job's row has these attributes, so that others may read it.
"""

from datetime import UTC, datetime
from enum import StrEnum

from headgate import JobState, RowAttribute


class Status(StrEnum):
    """The specification's words for a status, and one more."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    #: Not FAILED: clients offer a retry for that, and a cancelled job cannot be retried.
    CANCELLED = "CANCELLED"


STATUS_OF = {
    JobState.PENDING: Status.PENDING,
    JobState.RUNNING: Status.RUNNING,
    JobState.PAUSED: Status.PAUSED,
    # A worker still runs it: it may end as completed after all, so clients must go on polling.
    JobState.CANCELLING: Status.RUNNING,
    JobState.CANCELLED: Status.CANCELLED,
    JobState.SUCCESS: Status.COMPLETED,
    JobState.FAILED: Status.FAILED,
}


def _to_the_second(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


#: Source and destination have their names already.
HISTORICAL_JOBS = (
    RowAttribute("jobId", "id"),
    RowAttribute("userId", "user_id"),
    RowAttribute("startDate", "start_date"),
    RowAttribute("endDate", "end_date"),
    RowAttribute("cursorDate", "cursor_date"),
    RowAttribute("status", "state", STATUS_OF.__getitem__),
    RowAttribute("errorCount", "recent_errors", len),
    RowAttribute("lastAttempt", "attempted_at", _to_the_second),
)
