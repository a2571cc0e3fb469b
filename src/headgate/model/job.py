"""A job: one durable execution of a sync for a connection."""

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum

import msgspec

from headgate.base.encoding import Json, JsonObject
from headgate.model.states import JOB, JobState


class Lane(StrEnum):
    """Live work goes hot, backfill goes cold; each has workers of its own."""

    HOT = "hot"
    COLD = "cold"


class Mode(StrEnum):
    """How much of the source a job reads."""

    #: Everything.
    FULL = "full"
    #: What changed since a moment.
    SINCE = "since"
    #: At most so many records.
    LIMIT = "limit"
    #: A range of days, newest first, one day a chunk.
    HISTORY = "history"


class Reprocess(StrEnum):
    """Which days of a range are read again, beside those that nobody has read yet."""

    NONE = "none"
    #: Those that could not be read.
    FAILED = "failed"
    ALL = "all"


class Reason(StrEnum):
    """Why a job is where it is: the word behind every explanation."""

    QUEUED = "queued"
    MORE = "more"
    IDLE = "idle"
    RETRYING = "retrying"
    DEFERRED = "deferred"
    RATE_LIMITED = "rate_limited"
    NO_LIMITER = "no_limiter"
    CONNECTION_PAUSED = "connection_paused"
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
    """How far a job has come, counted in work, not in time."""

    done: int = 0
    #: None while the whole is not known.
    total: int | None = None
    #: What is being worked on, for people: "2022-10-27", "page 12".
    at: str | None = None

    @property
    def percent(self) -> float | None:
        """0 to 100, or None while the total is not known."""
        if self.total is None:
            return None
        if self.total <= 0:
            return 100.0
        # Rounded down: 100 means done, not nearly done.
        return min(1000, max(0, 1000 * self.done // self.total)) / 10


#: Days to be read: stretches with their first and their last day, the newest stretch first.
Plan = tuple[tuple[date, date], ...]


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


class Summary(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a job has done so far, counted over its whole life."""

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
    #: By the destination, where there is one.
    delivered: int = 0
    refused: int = 0
    #: By the source, under names of its own.
    counts: Mapping[str, int] = {}


class Job(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job as the store holds it. Fields are named as the columns are."""

    id: str
    user_id: str
    connection_id: str
    sync: str
    #: The provider's name.
    source: str
    #: Where the records go, and the user's link there; None: they stay in Headgate's database.
    destination: str | None = None
    destination_connection_id: str | None = None
    mode: Mode
    lane: Lane
    #: The caller's idempotency key, unique for the user.
    key: str | None = None
    params: JobParams = JobParams()
    start_date: date | None = None
    end_date: date | None = None

    state: JobState
    reason: Reason
    #: The last error, redacted, as `base/failure.py` writes it. It stays until the next success.
    error: str | None = None
    #: Whom the present state is about, source or destination: breakers open and recover by it.
    provider: str
    #: When something happens next by itself: the earliest start of a pending job, the thaw of a
    #: paused one, the deadline of a cancelling one.
    wake_at: datetime | None = None
    #: Its place in the queue, while it is due and waits for a worker.
    turn: int | None = None

    #: Where the next chunk begins: an ISO day in history mode, else whatever the source gave.
    cursor: Json = None
    #: The last high-water mark that the source named; it stays where it was from the first record
    #: that was refused, or the first day that was given up. Stored for the sync and the connection
    #: when the job succeeds.
    high_water: Json = None
    #: Chunks committed. With the token it names one chunk of one claim.
    steps: int = 0
    #: Failed tries of the present chunk.
    attempts: int = 0
    #: When the present chunk failed recoverably, as far as the breaker's window reaches.
    recent_errors: tuple[datetime, ...] = ()
    #: Workers lost on the present chunk.
    crashes: int = 0
    #: Times the present chunk was put off without fault.
    deferrals: int = 0
    #: Times the breaker opened on the present chunk.
    pauses: int = 0
    #: The one job let through to try whether its provider has recovered.
    probe: bool = False
    #: An operator asked for a pause; it takes effect at the next checkpoint.
    pause_requested: bool = False
    #: Something came in while a worker had it: it goes on, even where it would have ended.
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
        """The day the next chunk reads, in history mode."""
        if self.mode is not Mode.HISTORY or not isinstance(self.cursor, str):
            return None
        return date.fromisoformat(self.cursor)

    @property
    def plan(self) -> Plan:
        """The days to be read, in history mode: the whole range, unless some are held already."""
        if self.params.plan is not None:
            return self.params.plan
        if self.start_date is None or self.end_date is None:
            return ()
        return ((self.start_date, self.end_date),)

    @property
    def ended(self) -> bool:
        """Whether it is in a final state, which only an explicit retry leads out of."""
        return self.state in JOB.terminal

    @property
    def chunk_key(self) -> str:
        """The same for every attempt at one chunk: a destination that honours it takes it once."""
        return f"{self.id}:{self.steps}"


class EventKind(StrEnum):
    """The kinds of events that the engine writes; a source's events have names of their own."""

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


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's story; never changed, only appended."""

    id: int
    job_id: str
    at: datetime
    #: An EventKind, or the name of a source's own event.
    kind: str
    data: JsonObject
