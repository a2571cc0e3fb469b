"""Headgate: a durable sync engine for data behind rate-limited APIs.

Here is what an application declares and calls, and what a connector raises. `headgate.errors` has
all errors, `headgate.types` what annotations name, `headgate.connectors` and `headgate.toolkit` the
parts of connectors and of systems.
"""

from headgate.app import App
from headgate.base.clock import Clock, FastClock, SystemClock
from headgate.base.encoding import Json, JsonObject
from headgate.base.errors import (
    AuthExpired,
    Conflict,
    HeadgateError,
    InvalidInput,
    Malformed,
    NoData,
    NotFound,
    RateLimited,
    Terminal,
    Transient,
)
from headgate.base.secret import Secret
from headgate.connectors.http.destination import ApiDestination
from headgate.connectors.http.source import ApiSource
from headgate.flow.jobs.submit import JobRequest
from headgate.flow.notifications.service import NotificationSettings
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.flow.outbox.service import OutboxSettings
from headgate.flow.registry import Collection, Sync
from headgate.flow.step.check_chunk import ChunkLimits
from headgate.loops.lanes import LaneSize
from headgate.loops.supervisor import WorkerSettings
from headgate.model.api_key import Role
from headgate.model.budget import Budget, Limit, Scope
from headgate.model.connection import ConnectionReason
from headgate.model.forecast import DayCost
from headgate.model.item import Document, Item
from headgate.model.job import EventKind, Lane, Mode, Progress, Reason, Reprocess
from headgate.model.mail_server import MailServer, TlsMode
from headgate.model.notification import NotificationKind
from headgate.model.record import ChunkEvent, ChunkMessage, Record, RecordCounts
from headgate.model.schedule import CatchUp, Schedule, SkipReason, TickKind
from headgate.model.states import (
    ConnectionState,
    DayStatus,
    DeliveryState,
    ItemState,
    JobState,
    ReceiptState,
)
from headgate.model.target import Target, Topic
from headgate.model.user import Frequency
from headgate.policy.deliveries import DeliveryRetryPolicy
from headgate.policy.entitlement import Entitlement, paid_history
from headgate.policy.items import ItemRetryPolicy
from headgate.policy.notifications import Finishes, NotificationRules
from headgate.policy.retry import RetryPolicy
from headgate.ports.connector import (
    Batch,
    Chunk,
    Context,
    Destination,
    Refusal,
    Source,
    WriteResult,
)
from headgate.ports.items import FetchAttempt, FetchedItems, NewItem
from headgate.ports.jobs.store import RowAttribute
from headgate.ports.outbox import DeliveryFilter
from headgate.ports.records.store import RecordFilter
from headgate.ports.records.table import RecordTable, TableBatch
from headgate.system import Command, System

__version__ = "0.1.0"

__all__ = [
    "ApiDestination",
    "ApiSource",
    "App",
    "AuthExpired",
    "Batch",
    "Budget",
    "CatchUp",
    "Chunk",
    "ChunkEvent",
    "ChunkLimits",
    "ChunkMessage",
    "Clock",
    "Collection",
    "Command",
    "Conflict",
    "ConnectionReason",
    "ConnectionState",
    "Context",
    "DayCost",
    "DayStatus",
    "DeliveryFilter",
    "DeliveryRetryPolicy",
    "DeliveryState",
    "Destination",
    "Document",
    "DrainScope",
    "Entitlement",
    "EventKind",
    "FastClock",
    "FetchAttempt",
    "FetchedItems",
    "Finishes",
    "Frequency",
    "HeadgateError",
    "InvalidInput",
    "Item",
    "ItemRetryPolicy",
    "ItemState",
    "JobRequest",
    "JobState",
    "Json",
    "JsonObject",
    "Lane",
    "LaneSize",
    "Limit",
    "MailServer",
    "Malformed",
    "Mode",
    "NewItem",
    "NoData",
    "NotFound",
    "NotificationKind",
    "NotificationRules",
    "NotificationSettings",
    "OutboxSettings",
    "Progress",
    "RateLimited",
    "Reason",
    "ReceiptState",
    "Record",
    "RecordCounts",
    "RecordFilter",
    "RecordTable",
    "Refusal",
    "Reprocess",
    "RetryPolicy",
    "Role",
    "RowAttribute",
    "Schedule",
    "Scope",
    "Secret",
    "SkipReason",
    "Source",
    "Sync",
    "System",
    "SystemClock",
    "TableBatch",
    "Target",
    "Terminal",
    "TickKind",
    "TlsMode",
    "Topic",
    "Transient",
    "WorkerSettings",
    "WriteResult",
    "__version__",
    "paid_history",
]
