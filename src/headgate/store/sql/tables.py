"""The tables. The values of state columns are derived from `model/states.py`.

Indexes are partial: each has only the rows that its query looks for, so a claim costs the same with
a thousand jobs as with a million. The index and the query share `QUEUED`, `ASLEEP` and the other
conditions, because a database uses a partial index only if the query repeats its condition with
literals: a bound parameter could have any value.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Date,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
    literal_column,
    or_,
)

from headgate.base.encoding import Json, JsonObject
from headgate.model.api_key import Role
from headgate.model.budget import Ledger
from headgate.model.connection import ConnectionReason
from headgate.model.job import JobParams, Lane, Mode, Progress, Reason, Summary
from headgate.model.schedule import SkipReason, TickKind
from headgate.model.states import (
    DELIVERY,
    ITEM,
    JOB,
    ConnectionState,
    DayStatus,
    DeliveryState,
    ItemState,
    JobState,
    Machine,
    ReceiptState,
    Trouble,
    words,
)
from headgate.model.user import Preferences
from headgate.model.worker import Abilities
from headgate.store.sql.engine.types import JsonOf, OneOf, UtcTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: SQLite assigns ids only if the type of the primary key is INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")


def in_states(table: FromClause, *states: StrEnum) -> ColumnElement[bool]:
    """The condition that the state is one of these, with literals, for partial indexes."""
    if len(states) == 1:
        return table.c.state == literal_column(f"'{states[0].value}'")
    return table.c.state.in_([literal_column(f"'{state.value}'") for state in states])


def _leased(machine: Machine[Any, Any]) -> CheckConstraint:
    """The constraint that exactly the claimed rows have a lease, so that expired ones are found."""
    claimed = (
        f"state IN ({_listed(machine.claimed)})"
        if len(machine.claimed) > 1
        else f"state = {_listed(machine.claimed)}"
    )
    return CheckConstraint(f"(lease_until IS NOT NULL) = ({claimed})", name="lease")


def _listed(values: Iterable[StrEnum]) -> str:
    return ", ".join(f"'{word}'" for word in words(values))


def _one_of(column: str, values: Iterable[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({_listed(values)})", name=column)


jobs = Table(
    "headgate_jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("sync", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("destination", Text),
    Column("destination_connection_id", Text),
    Column("mode", OneOf(Mode), nullable=False),
    Column("lane", OneOf(Lane), nullable=False),
    Column("key", Text),
    Column("request_hash", Text, nullable=False),
    Column("params", JsonOf[JobParams](JobParams), nullable=False),
    Column("start_date", Date),
    Column("end_date", Date),
    Column("state", OneOf(JobState), nullable=False),
    Column("reason", OneOf(Reason), nullable=False),
    Column("error", Text),
    # Never NULL; nullable because it was added later, and SQLite cannot add it otherwise.
    Column("provider", Text),
    Column("wake_at", UtcTime),
    # The place in the queue. NULL while the job is not queued: asleep, running, paused or ended.
    Column("turn", BigInteger),
    Column("cursor", JsonOf[Json](object)),
    Column("high_water", JsonOf[Json](object)),
    Column("steps", Integer, nullable=False, default=0),
    Column("attempts", Integer, nullable=False, default=0),
    Column(
        "recent_errors",
        JsonOf[tuple[datetime, ...]](tuple[datetime, ...]),
        nullable=False,
        default=(),
    ),
    Column("crashes", Integer, nullable=False, default=0),
    Column("deferrals", Integer, nullable=False, default=0),
    Column("pauses", Integer, nullable=False, default=0),
    Column("probe", Boolean, nullable=False, default=False),
    Column("pause_requested", Boolean, nullable=False, default=False),
    Column("rerun", Boolean, nullable=False, default=False),
    Column("token", BigInteger, nullable=False, default=0),
    Column("lease_until", UtcTime),
    Column("worker", Text),
    Column("progress", JsonOf[Progress](Progress), nullable=False, default=Progress()),
    Column("summary", JsonOf[Summary](Summary), nullable=False, default=Summary()),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("attempted_at", UtcTime),
    Column("finished_at", UtcTime),
    _one_of("state", JobState),
    _one_of("mode", Mode),
    _one_of("lane", Lane),
    _leased(JOB),
    CheckConstraint(
        f"(finished_at IS NOT NULL) = (state IN ({_listed(JOB.terminal)}))", name="finished"
    ),
    CheckConstraint(f"turn IS NULL OR state = {_listed([JOB.initial])}", name="turn"),
    # A pending job is queued or has a time to wake; otherwise nothing would ever wake it.
    CheckConstraint(
        f"state <> {_listed([JOB.initial])} OR turn IS NOT NULL OR wake_at IS NOT NULL",
        name="wakes",
    ),
)

#: Due and waiting for a worker, in the order of `turn`.
QUEUED = and_(in_states(jobs, JobState.PENDING), jobs.c.turn.is_not(None))
#: Waiting for its `wake_at`.
ASLEEP = and_(in_states(jobs, JobState.PENDING), jobs.c.turn.is_(None))
#: Claimed by a worker.
CLAIMED = in_states(jobs, *JOB.claimed)
PAUSED = in_states(jobs, JobState.PAUSED)
CANCELLING = in_states(jobs, JobState.CANCELLING)
ACTIVE = in_states(jobs, *JOB.active)
ENDED = in_states(jobs, *JOB.terminal)
PROBING: ColumnElement[bool] = literal_column("probe")


def _index(
    name: str, *columns: ColumnElement[Any], where: ColumnElement[bool], unique: bool = False
) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_index(
    "ix_headgate_jobs_queued",
    jobs.c.lane,
    jobs.c.sync,
    jobs.c.turn,
    jobs.c.wake_at,
    jobs.c.id,
    where=QUEUED,
)
_index(
    "ix_headgate_jobs_turn_of_user",
    jobs.c.lane,
    jobs.c.user_id,
    jobs.c.turn,
    jobs.c.sync,
    where=QUEUED,
)
_index("ix_headgate_jobs_asleep", jobs.c.lane, jobs.c.sync, jobs.c.wake_at, where=ASLEEP)
_index("ix_headgate_jobs_claimed", jobs.c.lease_until, where=CLAIMED)
_index("ix_headgate_jobs_cancelling", jobs.c.wake_at, where=CANCELLING)
_index(
    "ix_headgate_jobs_paused",
    jobs.c.reason,
    jobs.c.provider,
    jobs.c.wake_at,
    jobs.c.sync,
    where=PAUSED,
)
# Unique: two rescuers may run at the same time, and a provider gets one probe.
_index("uq_headgate_jobs_probing", jobs.c.provider, where=PROBING, unique=True)
_index("uq_headgate_jobs_active", jobs.c.sync, jobs.c.connection_id, where=ACTIVE, unique=True)
_index(
    "uq_headgate_jobs_key", jobs.c.user_id, jobs.c.key, where=jobs.c.key.is_not(None), unique=True
)
#: For lists: the jobs of each kind in the order of their ids, of all users, of one user, of one
#: connection. Active jobs of a connection are found by `uq_headgate_jobs_active`.
_KIND = (jobs.c.sync, jobs.c.state, jobs.c.mode, jobs.c.id)
Index("ix_headgate_jobs_of_kind", *_KIND)
Index("ix_headgate_jobs_of_user", jobs.c.user_id, *_KIND)
_index("ix_headgate_jobs_of_connection", jobs.c.connection_id, *_KIND, where=ENDED)
#: For how long ago a connection's last job ended, and the last one that succeeded.
_index(
    "ix_headgate_jobs_last_ended",
    jobs.c.sync,
    jobs.c.connection_id,
    jobs.c.finished_at,
    jobs.c.state,
    where=ENDED,
)

job_events = Table(
    "headgate_job_events",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    # No foreign key: an event is only written under the lock of its job's row, which then exists.
    Column("job_id", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", JsonOf[JsonObject](dict[str, object]), nullable=False),
    # An id is never used again, even if the newest events are pruned.
    sqlite_autoincrement=True,
)
Index("ix_headgate_job_events_job", job_events.c.job_id, job_events.c.id)

records = Table(
    "headgate_records",
    metadata,
    Column("sync", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("data", JsonOf[JsonObject](dict[str, object]), nullable=False),
    Column("hash", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("sync", "connection_id", "key"),
)

#: Whose records these are: the user whose job stored the first one of the connection. It outlives
#: the connection, as the records do.
record_owners = Table(
    "headgate_record_owners",
    metadata,
    # The name that the records are stored under.
    Column("sync", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("sync", "connection_id"),
)
Index(
    "ix_headgate_record_owners_of_user",
    record_owners.c.user_id,
    record_owners.c.sync,
    record_owners.c.connection_id,
)

#: What destinations have made of records: whichever sync sends a record first, it is sent once.
receipts = Table(
    "headgate_receipts",
    metadata,
    # The name that the records are stored under, which several syncs may share.
    Column("sync", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    # Empty if the destination has no users; a primary key takes no NULL.
    Column("destination_connection_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("state", OneOf(ReceiptState), nullable=False),
    # The chunk that claimed or sent it: a claim is void once its job has left that chunk.
    Column("job_id", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("step", Integer, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("sync", "connection_id", "destination_connection_id", "key"),
    _one_of("state", ReceiptState),
)

#: How far each sync has read for a connection, as its source says; the next job goes on there.
high_water_marks = Table(
    "headgate_high_water_marks",
    metadata,
    Column("sync", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("value", JsonOf[Json](object), nullable=False),
    # The job whose success stored it.
    Column("job_id", Text, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("sync", "connection_id"),
)

coverage = Table(
    "headgate_coverage",
    metadata,
    Column("sync", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("day", Date, nullable=False),
    Column("status", OneOf(DayStatus), nullable=False),
    Column("records", Integer, nullable=False),
    Column("error", Text),
    Column("job_id", Text, nullable=False),
    # Where the job's records went; the job itself may be deleted one day.
    Column("destination_connection_id", Text),
    Column("updated_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("sync", "connection_id", "day"),
    _one_of("status", DayStatus),
)

budgets = Table(
    "headgate_budgets",
    metadata,
    # The source; for limits per connection, a slash and the connection follow.
    Column("key", Text, primary_key=True),
    Column("ledger", JsonOf[Ledger](Ledger), nullable=False),
    Column("updated_at", UtcTime, nullable=False),
)

#: Other limiters, such as Redis, that have begun to count; one that is empty later lost its counts.
limiters = Table(
    "headgate_limiters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("begun_at", UtcTime, nullable=False),
)

connections = Table(
    "headgate_connections",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("state", OneOf(ConnectionState), nullable=False),
    Column("reason", OneOf(ConnectionReason), nullable=False),
    Column("error", Text),
    Column("external_id", Text),
    Column("scopes", JsonOf[tuple[str, ...]](tuple[str, ...]), nullable=False),
    # Only ciphertexts, and the id of their key, by which rotation finds them.
    Column("sealed_access", LargeBinary, nullable=False),
    Column("sealed_refresh", LargeBinary),
    Column("key_id", Text, nullable=False),
    Column("expires_at", UtcTime),
    Column("version", BigInteger, nullable=False),
    # The worker that renews the credentials at present; one at a time.
    Column("lease_holder", Text),
    Column("lease_until", UtcTime),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    _one_of("state", ConnectionState),
    CheckConstraint("(lease_holder IS NULL) = (lease_until IS NULL)", name="lease"),
)
#: A user connects an account once; connecting it again renews the connection.
_index(
    "uq_headgate_connections_account",
    connections.c.user_id,
    connections.c.source,
    connections.c.external_id,
    where=connections.c.external_id.is_not(None),
    unique=True,
)
_index(
    "ix_headgate_connections_of_account",
    connections.c.source,
    connections.c.external_id,
    where=connections.c.external_id.is_not(None),
)
Index("ix_headgate_connections_of_user", connections.c.user_id, connections.c.id)
Index("ix_headgate_connections_of_source", connections.c.source, connections.c.id)
Index("ix_headgate_connections_key", connections.c.key_id, connections.c.id)

#: Removed connections, remembered for a week so that no item is registered for them again.
removed_connections = Table(
    "headgate_removed_connections",
    metadata,
    Column("connection_id", Text, primary_key=True),
    Column("removed_at", UtcTime, nullable=False),
)

#: Users who are on a provider's consent page and have not come back yet.
connect_attempts = Table(
    "headgate_connect_attempts",
    metadata,
    # A hash of the random state, so that a reader of the table learns no valid state.
    Column("state_hash", Text, primary_key=True),
    Column("session_hash", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("connection_id", Text),
    Column("redirect_uri", Text, nullable=False),
    Column("sealed_verifier", LargeBinary, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)
Index("ix_headgate_connect_attempts_expiry", connect_attempts.c.expires_at)
Index("ix_headgate_connect_attempts_of_user", connect_attempts.c.user_id)

#: Users, from the moment in which they connect, or in which the application first tells of them.
users = Table(
    "headgate_users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("plan", Text),
    Column("last_login_at", UtcTime),
    Column("preferences", JsonOf[Preferences](Preferences), nullable=False, default=Preferences()),
    Column("paused_at", UtcTime),
    Column("paused_by", Text),
    Column("pause_reason", Text),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    CheckConstraint("(paused_at IS NULL) = (paused_by IS NULL)", name="paused"),
)

#: Worker processes that are alive, or have died recently.
workers = Table(
    "headgate_workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("abilities", JsonOf[Abilities](Abilities), nullable=False),
    Column("started_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)

#: The keys of the HTTP API.
api_keys = Table(
    "headgate_api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    # A hash of the random secret, so that a reader of the table learns no valid key.
    Column("hash", Text, nullable=False),
    Column("name", Text, nullable=False),
    # The user whose jobs the key sees; NULL if its role sees everybody's.
    Column("user_id", Text),
    Column("role", OneOf(Role), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("revoked_at", UtcTime),
    _one_of("role", Role),
    CheckConstraint("(user_id IS NULL) = (role = 'admin')", name="owner"),
)
_index("ix_headgate_api_keys_of_user", api_keys.c.user_id, where=api_keys.c.user_id.is_not(None))

#: Requests with an Idempotency-Key, and their answers.
idempotent_requests = Table(
    "headgate_idempotent_requests",
    metadata,
    # The id of the API key; requests of another key are not visible.
    Column("owner", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("request_hash", Text, nullable=False),
    # NULL while the first request is under way.
    Column("status", Integer),
    Column("headers", JsonOf[JsonObject](dict[str, object]), nullable=False),
    Column("body", LargeBinary),
    # Until then, a request without an answer is in progress, and an answer is stored.
    Column("expires_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("owner", "key"),
)
Index("ix_headgate_idempotent_requests_expiry", idempotent_requests.c.expires_at)

#: Items, which are fetched one by one.
items = Table(
    "headgate_items",
    metadata,
    Column("id", Text, primary_key=True),
    Column("collection", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("external_id", Text),
    Column("lane", OneOf(Lane), nullable=False),
    Column("start_time", UtcTime, nullable=False),
    Column("state", OneOf(ItemState), nullable=False),
    Column("retry_count", Integer, nullable=False),
    Column("deferrals", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    # When it may be claimed. NULL if nothing happens by itself: claimed, ended or failed for good.
    Column("next_attempt_at", UtcTime),
    Column("deferred_until", UtcTime),
    Column("attempted_at", UtcTime),
    Column("limited_at", UtcTime),
    Column("error", Text),
    Column("token", BigInteger, nullable=False),
    Column("lease_until", UtcTime),
    Column("worker", Text),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    _one_of("state", ItemState),
    _one_of("lane", Lane),
    _leased(ITEM),
    CheckConstraint("(deferred_until IS NOT NULL) = (state = 'deferred')", name="deferred"),
    # An item without an id at the provider cannot be fetched, so it is unavailable.
    CheckConstraint("external_id IS NOT NULL OR state = 'unavailable'", name="known"),
    # A waiting item has a time to wake.
    CheckConstraint(
        "next_attempt_at IS NOT NULL OR state NOT IN ('pending', 'deferred')", name="wakes"
    ),
    CheckConstraint(
        f"next_attempt_at IS NULL OR state IN ({_listed(ITEM.claim.sources)})",
        name="claimable",
    ),
)


#: Waiting for a worker or for its time. An item that failed for good has no such time.
ELIGIBLE = and_(
    in_states(items, *ITEM.claim.sources),
    items.c.external_id.is_not(None),
    items.c.next_attempt_at.is_not(None),
)
FETCHING = in_states(items, *ITEM.claimed)
#: Failed for good.
STUCK = and_(in_states(items, ItemState.FAILED), items.c.next_attempt_at.is_(None))
#: "hot" sorts after "cold", so the last lane goes first.
CLAIM_ORDER = (items.c.lane.desc(), items.c.start_time, items.c.id)

_index(
    "ix_headgate_items_eligible",
    items.c.collection,
    items.c.connection_id,
    *CLAIM_ORDER,
    items.c.next_attempt_at,
    where=ELIGIBLE,
)
_index("ix_headgate_items_fetching", items.c.lease_until, where=FETCHING)
_index(
    "ix_headgate_items_limited",
    items.c.collection,
    items.c.limited_at,
    where=items.c.limited_at.is_not(None),
)
#: An id at the provider belongs to one item; any number of items may have none yet. The connection
#: comes first, because items are also deleted by connection.
Index(
    "uq_headgate_items_external",
    items.c.connection_id,
    items.c.collection,
    items.c.external_id,
    unique=True,
)
#: For counts: all items by state, the failed ones by their failures, a user's items by state.
Index(
    "ix_headgate_items_counted",
    items.c.collection,
    items.c.state,
    items.c.user_id,
    items.c.retry_count,
)

#: The documents of items: one row each, encoded as they are served.
item_documents = Table(
    "headgate_item_documents",
    metadata,
    Column("item_id", Text, primary_key=True),
    Column("media_type", Text, nullable=False),
    Column("attributes", JsonOf[JsonObject](dict[str, object]), nullable=False),
    Column("fetched_at", UtcTime, nullable=False),
    Column("hash", Text, nullable=False),
    Column("encoding", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

#: Deleted items and records, remembered for a day so that no read under way brings them back.
tombstones = Table(
    "headgate_tombstones",
    metadata,
    Column("connection_id", Text, nullable=False),
    # The name that a record is stored under; empty for an item.
    Column("stored_as", Text, nullable=False),
    # A record's key, or an item's id.
    Column("key", Text, nullable=False),
    Column("deleted_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("connection_id", "stored_as", "key"),
)

#: What applications want others to have; a message never changes.
messages = Table(
    "headgate_messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),
    # A text, not a JSON value: a database would write a JSON value in other bytes.
    Column("payload", Text, nullable=False),
    Column("payload_hash", Text, nullable=False),
    Column("run_id", Text),
    Column("user_id", Text),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("topic", "key"),
    Index("ix_headgate_messages_created", "topic", "created_at", "id"),
)
_index(
    "ix_headgate_messages_user",
    messages.c.user_id,
    messages.c.id,
    where=messages.c.user_id.is_not(None),
)

#: Messages on their way: one row for each message and target.
deliveries = Table(
    "headgate_deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("message_id", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("run_id", Text),
    Column("user_id", Text),
    Column("state", OneOf(DeliveryState), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    # When it may be claimed. NULL if nothing happens by itself: claimed, sent or dead.
    Column("next_attempt_at", UtcTime),
    Column("attempted_at", UtcTime),
    Column("sent_at", UtcTime),
    Column("error", Text),
    Column("token", BigInteger, nullable=False),
    Column("lease_until", UtcTime),
    Column("worker", Text),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    UniqueConstraint("message_id", "target"),
    _one_of("state", DeliveryState),
    _leased(DELIVERY),
    CheckConstraint(
        f"(next_attempt_at IS NOT NULL) = (state IN ({_listed(DELIVERY.claim.sources)}))",
        name="wakes",
    ),
    CheckConstraint("(sent_at IS NOT NULL) = (state = 'sent')", name="sent"),
)

#: Waiting for a worker or for its time.
UNSENT = in_states(deliveries, *DELIVERY.claim.sources)
SENDING = in_states(deliveries, *DELIVERY.claimed)
SENT = in_states(deliveries, DeliveryState.SENT)

_index(
    "ix_headgate_deliveries_unsent",
    deliveries.c.target,
    deliveries.c.next_attempt_at,
    deliveries.c.id,
    where=UNSENT,
)
_index("ix_headgate_deliveries_sending", deliveries.c.lease_until, where=SENDING)
_index("ix_headgate_deliveries_sent", deliveries.c.sent_at, where=SENT)
Index("ix_headgate_deliveries_state", deliveries.c.target, deliveries.c.state, deliveries.c.id)
_index(
    "ix_headgate_deliveries_run",
    deliveries.c.run_id,
    deliveries.c.id,
    where=deliveries.c.run_id.is_not(None),
)
_index(
    "ix_headgate_deliveries_user",
    deliveries.c.user_id,
    deliveries.c.id,
    where=deliveries.c.user_id.is_not(None),
)

#: Targets that get nothing until somebody has corrected their URL or key.
target_stops = Table(
    "headgate_target_stops",
    metadata,
    Column("target", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("stopped_at", UtcTime, nullable=False),
)

#: The schedules that applications have declared, and when each fires next.
schedules = Table(
    "headgate_schedules",
    metadata,
    Column("name", Text, primary_key=True),
    # What determines the ticks; an application that declares it otherwise computes the next anew.
    Column("definition", Text, nullable=False),
    Column("last_tick", UtcTime),
    Column("next_tick_at", UtcTime, nullable=False),
    Column("paused_at", UtcTime),
    Column("paused_by", Text),
    Column("pause_reason", Text),
    Column("updated_at", UtcTime, nullable=False),
    CheckConstraint("(paused_at IS NULL) = (paused_by IS NULL)", name="paused"),
)

#: Ticks that have fired; the key makes each of them fire once.
ticks = Table(
    "headgate_ticks",
    metadata,
    Column("schedule", Text, nullable=False),
    Column("tick", UtcTime, nullable=False),
    Column("kind", OneOf(TickKind), nullable=False),
    Column("fired_at", UtcTime, nullable=False),
    Column("queued", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("missed", Integer, nullable=False),
    # The process that fired it, and who asked for it, if somebody did.
    Column("worker", Text, nullable=False),
    Column("asked_by", Text),
    PrimaryKeyConstraint("schedule", "tick"),
    _one_of("kind", TickKind),
    CheckConstraint("(asked_by IS NOT NULL) = (kind = 'manual')", name="asked"),
    # For pruning, the oldest first.
    Index("ix_headgate_ticks_tick", "tick", "schedule"),
)

#: What each tick meant for each connection: a job, or the reason why there is none.
tick_users = Table(
    "headgate_tick_users",
    metadata,
    Column("schedule", Text, nullable=False),
    Column("tick", UtcTime, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    # The connection's job; if it was skipped because of an active job, that job.
    Column("job_id", Text),
    Column("reason", OneOf(SkipReason)),
    PrimaryKeyConstraint("schedule", "tick", "connection_id"),
    _one_of("reason", SkipReason),
    CheckConstraint("job_id IS NOT NULL OR reason IS NOT NULL", name="outcome"),
)

Index("ix_headgate_tick_users_user", tick_users.c.user_id)
#: Got a job.
TICK_QUEUED = tick_users.c.reason.is_(None)
_index(
    "ix_headgate_tick_users_last",
    tick_users.c.schedule,
    tick_users.c.connection_id,
    tick_users.c.tick,
    where=TICK_QUEUED,
)
#: What is the matter, as people were told, and which jobs are paused; all other syncs are well.
troubles = Table(
    "headgate_troubles",
    metadata,
    Column("connection_id", Text, nullable=False),
    # Empty: it is about the connection itself, whichever sync uses it.
    Column("sync", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    # The job that it was last about.
    Column("job_id", Text, nullable=False),
    # What was told last; NULL if nothing was, or if that is over.
    Column("trouble", OneOf(Trouble)),
    Column("paused_at", UtcTime),
    Column("updated_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("connection_id", "sync"),
    CheckConstraint(f"trouble IS NULL OR trouble IN ({_listed(Trouble)})", name="trouble"),
)

#: Paused, and nobody was told.
PAUSED_UNTOLD = and_(
    troubles.c.paused_at.is_not(None),
    or_(
        troubles.c.trouble.is_(None),
        troubles.c.trouble != literal_column(f"'{Trouble.PAUSED.value}'"),
    ),
)
_index(
    "ix_headgate_troubles_paused",
    troubles.c.paused_at,
    troubles.c.connection_id,
    troubles.c.sync,
    where=PAUSED_UNTOLD,
)
Index("ix_headgate_troubles_user", troubles.c.user_id, troubles.c.connection_id, troubles.c.sync)

#: Erasures of users. Once one has finished, nothing in it says whose it was.
erasures = Table(
    "headgate_erasures",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", Text),
    Column("connection_ids", JsonOf[tuple[str, ...]](tuple[str, ...]), nullable=False),
    Column(
        "systems", JsonOf[tuple[str, ...]](tuple[str, ...]), nullable=False, server_default="[]"
    ),
    Column("asked_by", Text, nullable=False),
    Column("asked_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    Column("deleted", JsonOf[dict[str, int]](dict[str, int]), nullable=False),
    Column("unrevoked", JsonOf[tuple[str, ...]](tuple[str, ...]), nullable=False),
    CheckConstraint("(user_id IS NULL) = (finished_at IS NOT NULL)", name="finished"),
)
_index(
    "uq_headgate_erasures_user",
    erasures.c.user_id,
    where=erasures.c.user_id.is_not(None),
    unique=True,
)
