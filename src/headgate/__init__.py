"""Headgate: a durable sync engine for data behind rate-limited APIs."""

from headgate.app import App
from headgate.base.clock import Clock, FastClock, SystemClock
from headgate.base.encoding import Json, JsonObject, content_hash, from_json, to_json
from headgate.base.errors import (
    ActiveJobExists,
    AddressRefused,
    AuthExpired,
    BudgetSpent,
    ConfirmationMissing,
    Conflict,
    ConnectionPaused,
    ConnectorBug,
    CredentialsUnreadable,
    Deferred,
    Forbidden,
    GrantRefused,
    HeadgateError,
    IllegalTransition,
    InvalidInput,
    JobCancelled,
    KeyReused,
    LimiterUnreachable,
    Malformed,
    NoData,
    NotConnected,
    NotFound,
    PlanRequired,
    RateLimited,
    RecordsClaimed,
    Retryable,
    SchemaBehind,
    SchemaNewer,
    ScopeMissing,
    SourceError,
    StoreError,
    StoreFault,
    StoreUnavailable,
    Terminal,
    Transient,
    UnknownSync,
    UnsendableMessage,
)
from headgate.base.log import get_logger
from headgate.base.redact import describe_error
from headgate.base.secret import Secret
from headgate.configured import configured_app
from headgate.connectors.answers import Throttled
from headgate.connectors.api import Redirects
from headgate.connectors.auth import ApiToken, InHeader, InQuery
from headgate.connectors.destination import ApiDestination
from headgate.connectors.oauth import OAuth2, Rotation
from headgate.connectors.paging import LinkHeader, NextBy, NextToken, PageNumber
from headgate.connectors.source import ApiSource
from headgate.flow.budget.service import Budgets
from headgate.flow.connections.service import Connections
from headgate.flow.items.service import Items, ItemStats
from headgate.flow.jobs.explain import explain_item, format_time
from headgate.flow.jobs.service import Jobs
from headgate.flow.jobs.submit import JobRequest
from headgate.flow.jobs.view import JobStatus, JobView
from headgate.flow.notifications.service import Notifications, NotificationSettings
from headgate.flow.outbox.attempts import DrainResult
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.flow.outbox.service import Outbox, OutboxSettings
from headgate.flow.outbox.targets import Targets
from headgate.flow.records.service import Records
from headgate.flow.registry import Collection, Sync
from headgate.flow.schedules.service import Schedules
from headgate.flow.schedules.view import PlanView, ScheduleHistory, ScheduleView
from headgate.flow.step.check_chunk import ChunkLimits
from headgate.flow.users.api_keys import ApiKeys
from headgate.flow.users.service import Users
from headgate.loops.lanes import LaneSize
from headgate.loops.supervisor import Supervisor, WorkerSettings
from headgate.model.budget import Budget, BudgetUse, Limit, Scope, WindowUse
from headgate.model.connection import Connection, ConnectionReason
from headgate.model.delivery import Delivery, Message, TargetStop
from headgate.model.forecast import DayCost, Forecast
from headgate.model.item import Document, Item
from headgate.model.job import (
    EventKind,
    Job,
    JobEvent,
    JobParams,
    Lane,
    Mode,
    Progress,
    Reason,
    Reprocess,
    Summary,
)
from headgate.model.mail_server import MailServer, TlsMode
from headgate.model.notification import Notification, NotificationKind
from headgate.model.record import (
    ChunkEvent,
    ChunkMessage,
    Coverage,
    CoverageRow,
    Record,
    RecordCounts,
)
from headgate.model.schedule import CatchUp, Schedule, SkipReason, Tick, TickKind
from headgate.model.states import (
    ConnectionState,
    DayStatus,
    DeliveryState,
    ItemState,
    JobState,
    ReceiptState,
)
from headgate.model.target import Target, Topic
from headgate.model.user import Frequency, Preferences, User
from headgate.policy.deliveries import DeliveryRetryPolicy
from headgate.policy.entitlement import Entitlement, paid_history
from headgate.policy.items import ItemRetryPolicy
from headgate.policy.notifications import Finishes, NotificationRules
from headgate.policy.retry import RetryPolicy
from headgate.ports.auth import Auth
from headgate.ports.connector import (
    Batch,
    Chunk,
    ClientOptions,
    Context,
    Destination,
    File,
    Gate,
    Http,
    Permit,
    Provider,
    Refusal,
    Source,
    WriteResult,
)
from headgate.ports.items import FetchAttempt, FetchedItems, NewItem, StoredDocument
from headgate.ports.outbox import DeliveryFilter
from headgate.ports.record_table import RecordTable, TableBatch
from headgate.ports.store import SubmitResult
from headgate.ports.submission import SubmitOutcome, SubmitStatus
from headgate.ports.transport import Headers, Response, Timeouts, Transport
from headgate.system import Command, System

__version__ = "0.1.0"

__all__ = [
    "ActiveJobExists",
    "AddressRefused",
    "ApiDestination",
    "ApiKeys",
    "ApiSource",
    "ApiToken",
    "App",
    "Auth",
    "AuthExpired",
    "Batch",
    "Budget",
    "BudgetSpent",
    "BudgetUse",
    "Budgets",
    "CatchUp",
    "Chunk",
    "ChunkEvent",
    "ChunkLimits",
    "ChunkMessage",
    "ClientOptions",
    "Clock",
    "Collection",
    "Command",
    "ConfirmationMissing",
    "Conflict",
    "Connection",
    "ConnectionPaused",
    "ConnectionReason",
    "ConnectionState",
    "Connections",
    "ConnectorBug",
    "Context",
    "Coverage",
    "CoverageRow",
    "CredentialsUnreadable",
    "DayCost",
    "DayStatus",
    "Deferred",
    "Delivery",
    "DeliveryFilter",
    "DeliveryRetryPolicy",
    "DeliveryState",
    "Destination",
    "Document",
    "DrainResult",
    "DrainScope",
    "Entitlement",
    "EventKind",
    "FastClock",
    "FetchAttempt",
    "FetchedItems",
    "File",
    "Finishes",
    "Forbidden",
    "Forecast",
    "Frequency",
    "Gate",
    "GrantRefused",
    "Headers",
    "HeadgateError",
    "Http",
    "IllegalTransition",
    "InHeader",
    "InQuery",
    "InvalidInput",
    "Item",
    "ItemRetryPolicy",
    "ItemState",
    "ItemStats",
    "Items",
    "Job",
    "JobCancelled",
    "JobEvent",
    "JobParams",
    "JobRequest",
    "JobState",
    "JobStatus",
    "JobView",
    "Jobs",
    "Json",
    "JsonObject",
    "KeyReused",
    "Lane",
    "LaneSize",
    "Limit",
    "LimiterUnreachable",
    "LinkHeader",
    "MailServer",
    "Malformed",
    "Message",
    "Mode",
    "NewItem",
    "NextBy",
    "NextToken",
    "NoData",
    "NotConnected",
    "NotFound",
    "Notification",
    "NotificationKind",
    "NotificationRules",
    "NotificationSettings",
    "Notifications",
    "OAuth2",
    "Outbox",
    "OutboxSettings",
    "PageNumber",
    "Permit",
    "PlanRequired",
    "PlanView",
    "Preferences",
    "Progress",
    "Provider",
    "RateLimited",
    "Reason",
    "ReceiptState",
    "Record",
    "RecordCounts",
    "RecordTable",
    "Records",
    "RecordsClaimed",
    "Redirects",
    "Refusal",
    "Reprocess",
    "Response",
    "RetryPolicy",
    "Retryable",
    "Rotation",
    "Schedule",
    "ScheduleHistory",
    "ScheduleView",
    "Schedules",
    "SchemaBehind",
    "SchemaNewer",
    "Scope",
    "ScopeMissing",
    "Secret",
    "SkipReason",
    "Source",
    "SourceError",
    "StoreError",
    "StoreFault",
    "StoreUnavailable",
    "StoredDocument",
    "SubmitOutcome",
    "SubmitResult",
    "SubmitStatus",
    "Summary",
    "Supervisor",
    "Sync",
    "System",
    "SystemClock",
    "TableBatch",
    "Target",
    "TargetStop",
    "Targets",
    "Terminal",
    "Throttled",
    "Tick",
    "TickKind",
    "Timeouts",
    "TlsMode",
    "Topic",
    "Transient",
    "Transport",
    "UnknownSync",
    "UnsendableMessage",
    "User",
    "Users",
    "WindowUse",
    "WorkerSettings",
    "WriteResult",
    "__version__",
    "configured_app",
    "content_hash",
    "describe_error",
    "explain_item",
    "format_time",
    "from_json",
    "get_logger",
    "paid_history",
    "to_json",
]
