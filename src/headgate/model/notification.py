"""Notifications: what people are told about jobs, and what was told already.

A notification is the payload of a message of the outbox. It is sent to webhooks as it is, so its
fields are public and stay; e-mails are written from it.
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from headgate.base.failure import Failure
from headgate.model.job import Lane, Mode, Reason
from headgate.model.states import JobState, Trouble

#: The topic of their messages.
TOPIC = "headgate.notifications"


class NotificationKind(StrEnum):
    """What a notification says; as its type, `job.` is put before it."""

    FINISHED = "finished"
    FAILED = "failed"
    NEEDS_REAUTH = "needs_reauth"
    PAUSED = "paused"
    RECOVERED = "recovered"
    #: Nothing happened: somebody tries whether notifications arrive.
    TEST = "test"


class Subject(NamedTuple):
    """What a trouble is about: a sync for a connection, or the connection itself."""

    connection_id: str
    #: Empty: the connection itself, whichever sync uses it.
    sync: str = ""


class NotifiedState(msgspec.Struct, frozen=True, gc=False):
    """What is known of a subject: what people were told last, and how long its job is paused."""

    trouble: Trouble | None = None
    #: Since when the job is paused; short attempts in between do not count.
    paused_at: datetime | None = None


class TroubleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trouble as it is stored; fields are named as the columns."""

    connection_id: str
    sync: str
    user_id: str
    #: The job that it was last about.
    job_id: str
    trouble: Trouble | None
    paused_at: datetime | None
    updated_at: datetime


class NotifiedOperator(msgspec.Struct, frozen=True, kw_only=True):
    """What only whoever runs the application should see."""

    error: Failure | None = None


class NotifiedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job that a notification is about; fields are named as in the API."""

    #: Also the support code for users.
    id: str
    user_id: str
    sync: str
    source: str
    destination: str | None
    connection_id: str
    destination_connection_id: str | None
    mode: Mode
    lane: Lane
    state: JobState
    reason: Reason
    retryable: bool
    finished_at: datetime | None
    operator: NotifiedOperator


class NotificationData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a notification says."""

    #: For people: a line, and what happened, what happens next, what to do.
    title: str
    message: str
    #: None: it is about no job, because it is a test.
    job: NotifiedJob | None = None
    #: What is over, if it says so.
    recovered_from: Trouble | None = None
    #: Since when the job is paused, if that is what it says.
    paused_at: datetime | None = None
    #: Where a test goes; all others go to the user that they are about.
    to: str | None = None


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification, in the form that Standard Webhooks recommends."""

    #: Such as `job.failed`.
    type: str
    timestamp: datetime
    data: NotificationData


def type_of(kind: NotificationKind) -> str:
    """The type of a notification of that kind."""
    return f"job.{kind.value}"
