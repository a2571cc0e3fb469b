"""Headgate: a durable sync engine for data behind rate-limited APIs."""

from headgate.app import App
from headgate.base.errors import (
    ActiveJobExists,
    AuthExpired,
    BudgetSpent,
    Conflict,
    Deferred,
    Forbidden,
    HeadgateError,
    IllegalTransition,
    InvalidInput,
    KeyReused,
    LimiterUnreachable,
    Malformed,
    NoData,
    NotFound,
    RateLimited,
    Retryable,
    SchemaBehind,
    SchemaNewer,
    SourceError,
    StoreError,
    StoreUnavailable,
    Terminal,
    Transient,
    UnknownSync,
)
from headgate.flow.registry import Sync
from headgate.flow.submit import JobRequest
from headgate.loops.lanes import LaneSize
from headgate.loops.supervisor import Supervisor, WorkerSettings
from headgate.model.budget import Budget, BudgetUse, Limit, Scope, WindowUse
from headgate.model.job import Job, JobEvent, Lane, Mode, Progress, Reason, Summary
from headgate.model.record import Coverage, CoverageRow, Record
from headgate.model.states import DayStatus, JobState
from headgate.policy.retry import RetryPolicy
from headgate.ports.connector import Batch, Chunk, Context, Destination, Gate, Passage, Source
from headgate.ports.store import Submitted

__version__ = "0.1.0"

__all__ = [
    "ActiveJobExists",
    "App",
    "AuthExpired",
    "Batch",
    "Budget",
    "BudgetSpent",
    "BudgetUse",
    "Chunk",
    "Conflict",
    "Context",
    "Coverage",
    "CoverageRow",
    "DayStatus",
    "Deferred",
    "Destination",
    "Forbidden",
    "Gate",
    "HeadgateError",
    "IllegalTransition",
    "InvalidInput",
    "Job",
    "JobEvent",
    "JobRequest",
    "JobState",
    "KeyReused",
    "Lane",
    "LaneSize",
    "Limit",
    "LimiterUnreachable",
    "Malformed",
    "Mode",
    "NoData",
    "NotFound",
    "Passage",
    "Progress",
    "RateLimited",
    "Reason",
    "Record",
    "RetryPolicy",
    "Retryable",
    "SchemaBehind",
    "SchemaNewer",
    "Scope",
    "Source",
    "SourceError",
    "StoreError",
    "StoreUnavailable",
    "Submitted",
    "Summary",
    "Supervisor",
    "Sync",
    "Terminal",
    "Transient",
    "UnknownSync",
    "WindowUse",
    "WorkerSettings",
    "__version__",
]
