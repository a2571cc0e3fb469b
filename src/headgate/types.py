"""What an application gets from Headgate and never makes itself: for annotations.

The facades of an `App`, and the views and results that they return.
"""

from headgate.base.failure import Failure
from headgate.flow.budget.service import Budgets
from headgate.flow.connections.rekey import RekeyResult
from headgate.flow.connections.service import ConnectBy, Connections
from headgate.flow.items.service import Items, ItemStats
from headgate.flow.jobs.service import Jobs
from headgate.flow.jobs.view import (
    DayView,
    JobCounts,
    JobProgress,
    JobStatus,
    JobView,
    OperatorView,
    Reconnect,
)
from headgate.flow.notifications.service import Notifications, NotificationTest
from headgate.flow.outbox.attempts import DrainResult
from headgate.flow.outbox.service import Outbox
from headgate.flow.outbox.targets import Targets
from headgate.flow.records.service import Records
from headgate.flow.records.view import RecordPage, RecordView
from headgate.flow.schedules.service import Schedules, ScheduleStats
from headgate.flow.schedules.view import (
    DayHistory,
    FreshnessView,
    PauseView,
    PlanView,
    ScheduleHistory,
    ScheduleView,
    SkipView,
    StaleUser,
    StartView,
    TickUserView,
)
from headgate.flow.users.api_keys import ApiKeys
from headgate.flow.users.service import Users
from headgate.loops.on_demand import OnDemandWorker
from headgate.loops.supervisor import Supervisor
from headgate.model.api_key import ApiKey
from headgate.model.budget import BudgetUse, WindowUse
from headgate.model.connection import Connection
from headgate.model.delivery import Delivery, Message, TargetStop
from headgate.model.erasure import Erasure
from headgate.model.forecast import Finish, Forecast, LeftForLive, Requests
from headgate.model.job import Job, JobEvent, JobParams, Summary
from headgate.model.notification import (
    Notification,
    NotificationData,
    NotifiedJob,
    NotifiedOperator,
    TroubleRow,
)
from headgate.model.pace import Pace
from headgate.model.record import Coverage, CoverageRow, StoredRecord
from headgate.model.schedule import ScheduleState, Tick
from headgate.model.states import Trouble
from headgate.model.user import Preferences, User
from headgate.model.worker import Abilities, Worker
from headgate.ports.items import RegisterResult, ServedItem, StoredDocument
from headgate.ports.jobs.events import LastEvent
from headgate.ports.jobs.submission import SubmitOutcome, SubmitResult, SubmitStatus
from headgate.ports.outbox import Backlog
from headgate.ports.schedules import TickCounts, UserFailures

__all__ = [
    "Abilities",
    "ApiKey",
    "ApiKeys",
    "Backlog",
    "BudgetUse",
    "Budgets",
    "ConnectBy",
    "Connection",
    "Connections",
    "Coverage",
    "CoverageRow",
    "DayHistory",
    "DayView",
    "Delivery",
    "DrainResult",
    "Erasure",
    "Failure",
    "Finish",
    "Forecast",
    "FreshnessView",
    "ItemStats",
    "Items",
    "Job",
    "JobCounts",
    "JobEvent",
    "JobParams",
    "JobProgress",
    "JobStatus",
    "JobView",
    "Jobs",
    "LastEvent",
    "LeftForLive",
    "Message",
    "Notification",
    "NotificationData",
    "NotificationTest",
    "Notifications",
    "NotifiedJob",
    "NotifiedOperator",
    "OnDemandWorker",
    "OperatorView",
    "Outbox",
    "Pace",
    "PauseView",
    "PlanView",
    "Preferences",
    "Reconnect",
    "RecordPage",
    "RecordView",
    "Records",
    "RegisterResult",
    "RekeyResult",
    "Requests",
    "ScheduleHistory",
    "ScheduleState",
    "ScheduleStats",
    "ScheduleView",
    "Schedules",
    "ServedItem",
    "SkipView",
    "StaleUser",
    "StartView",
    "StoredDocument",
    "StoredRecord",
    "SubmitOutcome",
    "SubmitResult",
    "SubmitStatus",
    "Summary",
    "Supervisor",
    "TargetStop",
    "Targets",
    "Tick",
    "TickCounts",
    "TickUserView",
    "Trouble",
    "TroubleRow",
    "User",
    "UserFailures",
    "Users",
    "WindowUse",
    "Worker",
]
