"""Jobs: a job is one durable execution of a sync for a connection."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from functools import lru_cache

import msgspec

from headgate.base.encoding import Json, JsonObject
from headgate.model.pace import Pace
from headgate.model.states import JOB, ItemState, JobState


class Lane(StrEnum):
    """The lane of a job: live work is hot, a backfill is cold; each lane has its own workers."""

    HOT = "hot"
    COLD = "cold"


class Mode(StrEnum):
    """How much of the source a job reads."""

    #: Everything.
    FULL = "full"
    #: What changed since a time, or since the high-water mark.
    SINCE = "since"
    #: At most so many records.
    LIMIT = "limit"
    #: A range of days, newest first, one day a chunk.
    HISTORY = "history"


class Reprocess(StrEnum):
    """Which days of a range a backfill reads again, besides the days that were never read."""

    NONE = "none"
    #: The days that could not be read.
    FAILED = "failed"
    ALL = "all"


class Reason(StrEnum):
    """Why a job is in its state; every explanation of a job is made from it."""

    QUEUED = "queued"
    MORE = "more"
    IDLE = "idle"
    RETRYING = "retrying"
    DEFERRED = "deferred"
    RATE_LIMITED = "rate_limited"
    NO_LIMITER = "no_limiter"
    CONNECTION_PAUSED = "connection_paused"
    RECORDS_CLAIMED = "records_claimed"
    DISK_FULL = "disk_full"
    DISK_READ_ONLY = "disk_read_only"
    DISK_BROKEN = "disk_broken"
    RELEASED = "released"
    RESCUED = "rescued"
    WORKING = "working"
    BREAKER = "breaker"
    RECOVERING = "recovering"
    PROBE = "probe"
    RESUMED = "resumed"
    RETRY_NOW = "retry_now"
    OPERATOR = "operator"
    CANCEL_ASKED = "cancel_asked"
    CANCELLED = "cancelled"
    CANCEL_DEADLINE = "cancel_deadline"
    DONE = "done"
    DONE_WITH_GAPS = "done_with_gaps"
    NEEDS_REAUTH = "needs_reauth"
    REFUSED = "refused"
    ATTEMPTS_SPENT = "attempts_spent"
    CRASHES_SPENT = "crashes_spent"


class Progress(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The progress of a job, counted in work, not in time."""

    done: int = 0
    #: None while the total is not known.
    total: int | None = None
    #: The present piece of work, for people: "2022-10-27", "page 12".
    at: str | None = None
    #: The number of items in each state, where there are any; empty if the job fetches no items.
    items: Mapping[ItemState, int] = {}
    #: The collection, if these are all of the connection's items in it: then the items are what
    #: the job finds and imports.
    collection: str | None = None

    @property
    def percent(self) -> float | None:
        """0 to 100, or None while the total is not known."""
        if self.total is None:
            return None
        if self.total <= 0:
            return 100.0
        # Rounded down: 100 means done, not nearly done.
        return min(1000, max(0, 1000 * self.done // self.total)) / 10


#: The days to read: stretches of days with the first and the last day, the newest stretch first.
Plan = tuple[tuple[date, date], ...]
#: A plan with more stretches is stored as bits: a job is read and written for every chunk, and a
#: hundred years of days are less than 5 KB.
STRETCHES_MAX = 500


class JobParams(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What the caller asked for beyond the columns of a job."""

    #: Mode since: what changed after this time; None: after the stored high-water mark.
    since: datetime | None = None
    #: Mode limit: at most so many records.
    limit: int | None = None
    #: Passed to the source as they are.
    options: JsonObject = {}
    #: Mode history: the days to be read; None: the whole range.
    plan: Plan | None = None
    #: The same where there are many stretches: a bit for each day, from the first of the range on.
    plan_bits: bytes | None = None

    def with_plan(self, plan: Plan, start: date) -> "JobParams":
        """These params with the days to be read, of a range that begins at `start`."""
        if len(plan) <= STRETCHES_MAX:
            return msgspec.structs.replace(self, plan=plan)
        return msgspec.structs.replace(self, plan_bits=_to_bits(plan, start))


class Summary(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The counts of what a job has done, over its whole life."""

    chunks: int = 0
    records: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    days_held: int = 0
    days_empty: int = 0
    days_failed: int = 0
    errors: int = 0
    deferrals: int = 0
    crashes: int = 0
    pauses: int = 0
    #: Records that the destination took and refused, if the sync has a destination.
    delivered: int = 0
    refused: int = 0
    #: Records that the destination had taken before, so that they were not sent again.
    delivered_before: int = 0
    #: The source's own counts, by its own names.
    counts: Mapping[str, int] = {}
    #: What the chunks took, for the estimates of the end.
    pace: Pace = Pace()


class Job(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job as it is stored. Fields are named as the columns."""

    id: str
    user_id: str
    connection_id: str
    sync: str
    #: The provider's name.
    source: str
    #: Where the records go, and the user's connection there; None: Headgate's own database.
    destination: str | None = None
    destination_connection_id: str | None = None
    mode: Mode
    lane: Lane
    #: The caller's idempotency key, unique for the user.
    key: str | None = None
    #: What the caller asked for besides these columns.
    params: JobParams = JobParams()
    start_date: date | None = None
    end_date: date | None = None

    state: JobState
    reason: Reason
    #: The last error, redacted, as `base/failure.py` writes it. It stays until the next success.
    error: str | None = None
    #: The provider that the present state is about, source or destination. Breakers go by it.
    provider: str
    #: When something happens next by itself: the earliest start of a pending job, the thaw of a
    #: paused job, the deadline of a cancelling job.
    wake_at: datetime | None = None
    #: The job's place in the queue, while it is due and waits for a worker.
    turn: int | None = None

    #: Where the next chunk begins: an ISO day in mode history, else the source's own cursor.
    cursor: Json = None
    #: The last high-water mark that the source named. It stops moving at the first refused record
    #: or given-up day. When the job succeeds, it is stored for the sync and the connection.
    high_water: Json = None
    #: Chunks committed. Together with the token it identifies one chunk of one claim.
    steps: int = 0
    #: Failed tries of the present chunk.
    attempts: int = 0
    #: When the present chunk failed recoverably, within the breaker's window.
    recent_errors: tuple[datetime, ...] = ()
    #: Workers lost on the present chunk.
    crashes: int = 0
    #: How often the present chunk was deferred.
    deferrals: int = 0
    #: How often the breaker opened on the present chunk.
    pauses: int = 0
    #: This job alone is let through, to test whether its provider has recovered.
    probe: bool = False
    #: An operator asked for a pause; it takes effect at the next checkpoint.
    pause_requested: bool = False
    #: New work arrived while a worker had the job: it starts again instead of ending or resting.
    rerun: bool = False

    #: Goes up with every claim; a write with an older token is refused.
    token: int = 0
    lease_until: datetime | None = None
    worker: str | None = None

    progress: Progress = Progress()
    summary: Summary = Summary()

    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    #: When a worker last began a chunk.
    attempted_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def cursor_date(self) -> date | None:
        """The day that the next chunk reads, in mode history."""
        if self.mode is not Mode.HISTORY or not isinstance(self.cursor, str):
            return None
        return date.fromisoformat(self.cursor)

    @property
    def plan(self) -> Plan:
        """The days to read, in mode history: the whole range, or the days that are not held yet."""
        if self.params.plan is not None:
            return self.params.plan
        if self.start_date is None or self.end_date is None:
            return ()
        if self.params.plan_bits is not None:
            return _from_bits(self.params.plan_bits, self.start_date)
        return ((self.start_date, self.end_date),)

    @property
    def ended(self) -> bool:
        """Whether the job is in a final state, which only an explicit retry leaves."""
        return self.state in JOB.terminal

    @property
    def provider_connection_id(self) -> str | None:
        """The user's connection to the provider that the present state is about."""
        at_destination = self.provider == self.destination
        return self.destination_connection_id if at_destination else self.connection_id

    @property
    def chunk_key(self) -> str:
        """The chunk's idempotency key for the destination, the same for every attempt at it."""
        return f"{self.id}:{self.steps}"


class EventKind(StrEnum):
    """The kinds of events that the engine writes; a source's events have their own kinds."""

    SUBMITTED = "submitted"
    WOKEN = "woken"
    RERUN_ASKED = "rerun_asked"
    CHUNK = "chunk"
    DAY_FAILED = "day_failed"
    RETRY = "retry"
    DEFERRED = "deferred"
    BREAKER_OPENED = "breaker_opened"
    THAWED = "thawed"
    RELEASED = "released"
    RESCUED = "rescued"
    PAUSE_ASKED = "pause_asked"
    PAUSE_DROPPED = "pause_dropped"
    PAUSED = "paused"
    RESUMED = "resumed"
    RETRY_NOW = "retry_now"
    CANCEL_ASKED = "cancel_asked"
    CANCELLED = "cancelled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


#: What the last frame of a stream of events is called, so no event may have this kind.
END_OF_EVENTS = "end"


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a job; events are appended and never changed."""

    id: int
    job_id: str
    at: datetime
    #: An EventKind, or the kind of a source's own event.
    kind: str
    data: JsonObject


def _to_bits(plan: Plan, start: date) -> bytes:
    bits = 0
    for first, last in plan:
        days = (last - first).days + 1
        bits |= ((1 << days) - 1) << (first - start).days
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


@lru_cache(maxsize=16)
def _from_bits(packed: bytes, start: date) -> Plan:
    bits = f"{int.from_bytes(packed, 'little'):b}"
    # The newest day is the first character.
    newest = start.toordinal() + len(bits) - 1
    return tuple(
        (date.fromordinal(newest - found.end() + 1), date.fromordinal(newest - found.start()))
        for found in re.finditer("1+", bits)
    )
