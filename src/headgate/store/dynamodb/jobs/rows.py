"""Jobs as items: their attributes, and their places in the indexes.

Besides its columns, a job's item has the attributes of the table `HistoricalJobs` by which others
may read it: jobId, userId, source, destination, startDate, endDate, cursorDate, status, errorCount
and lastAttempt.
"""

from datetime import UTC, datetime

from headgate.model.job import Job, Reason
from headgate.model.states import JOB, JobState
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import BY_CONNECTION, BY_STATE, BY_SYNC, BY_USER

#: The statuses of `HistoricalJobs`, and one more: what was cancelled cannot be retried.
STATUS_OF = {
    JobState.PENDING: "PENDING",
    JobState.RUNNING: "RUNNING",
    JobState.PAUSED: "PAUSED",
    # A worker still has it, and it may end as completed after all.
    JobState.CANCELLING: "RUNNING",
    JobState.CANCELLED: "CANCELLED",
    JobState.SUCCESS: "COMPLETED",
    JobState.FAILED: "FAILED",
}


def historical_time(time: datetime) -> str:
    """A time as `HistoricalJobs` has it: in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fixed_attributes(job: Job) -> Attributes:
    """The attributes of a job that never change, besides its columns."""
    shard = keys.shard_of(job.id)
    entry = keys.join("job", job.id)
    return {
        "jobId": job.id,
        "userId": job.user_id,
        "startDate": None if job.start_date is None else job.start_date.isoformat(),
        "endDate": None if job.end_date is None else job.end_date.isoformat(),
        **keys.index_attributes(BY_USER, keys.join("user", job.user_id), entry),
        **keys.index_attributes(BY_CONNECTION, keys.join("connection", job.connection_id), entry),
        **keys.index_attributes(BY_SYNC, keys.join("job", job.sync, shard), entry),
    }


def changing_attributes(job: Job) -> Attributes:
    """The attributes of a job that follow from its state, besides its columns."""
    cursor_date, attempted_at = job.cursor_date, job.attempted_at
    return {
        "status": STATUS_OF[job.state],
        "cursorDate": None if cursor_date is None else cursor_date.isoformat(),
        "errorCount": len(job.recent_errors),
        "lastAttempt": None if attempted_at is None else historical_time(attempted_at),
        **place_by_state(job),
    }


def place_by_state(job: Job) -> Attributes:
    """The job's place in the index by state: for what happens next, at the time when it does."""
    shard = keys.shard_of(job.id)
    match job.state:
        case JobState.PENDING:
            pk = keys.join("pending", job.lane, job.sync, shard)
        case JobState.PAUSED if job.reason is Reason.BREAKER:
            pk = keys.join("breaker", job.provider, shard)
        case JobState.PAUSED if job.reason is Reason.RECOVERING:
            pk = keys.join("recovering", job.sync, shard)
        case state if state in JOB.claimed:
            pk = keys.join("claimed", JOB.name, shard)
        case state:
            pk = keys.join(state.value, job.sync, shard)
    at = claim_ends_at(job) if job.state in JOB.claimed else job.wake_at
    sk = keys.join(job.id) if at is None else keys.join(keys.time_text(at), job.id)
    return keys.index_attributes(BY_STATE, pk, sk)


def claim_ends_at(job: Job) -> datetime | None:
    """When a worker's claim ends by itself: with its lease, or at the deadline of a cancel."""
    times = [job.lease_until]
    if job.state is JobState.CANCELLING:
        times.append(job.wake_at)
    return min((time for time in times if time is not None), default=None)


def pending_shards(lane: str, sync: str) -> list[str]:
    """The partitions of pending jobs, by the time when they are due."""
    return keys.shards("pending", lane, sync)


def breaker_shards(provider: str) -> list[str]:
    """The partitions of jobs that the breaker has paused, by the end of their cool-down."""
    return keys.shards("breaker", provider)


def recovering_shards(sync: str) -> list[str]:
    """The partitions of jobs whose provider has recovered, by the time when they may go on."""
    return keys.shards("recovering", sync)


def state_shards(state: JobState, sync: str) -> list[str]:
    """The partitions of jobs that have ended or that an operator has paused, by their ids."""
    return keys.shards(state.value, sync)


def sync_shards(sync: str) -> list[str]:
    """The partitions of all jobs of a sync, by their ids."""
    return keys.shards("job", sync)
