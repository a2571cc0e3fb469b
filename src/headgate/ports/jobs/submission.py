"""New jobs, and what becomes of requests for them."""

from datetime import date, timedelta
from enum import StrEnum

import msgspec

from headgate.base.encoding import Json
from headgate.base.errors import HeadgateError
from headgate.model.job import Job, JobParams, Lane, Mode, Progress, Summary


class NewJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job to store, validated and complete."""

    id: str
    user_id: str
    connection_id: str
    sync: str
    source: str
    destination: str | None = None
    destination_connection_id: str | None = None
    mode: Mode
    lane: Lane
    key: str | None
    #: A hash of the whole request, to refuse the same key with another request.
    request_hash: str
    params: JobParams
    start_date: date | None
    end_date: date | None
    cursor: Json
    progress: Progress
    delay: timedelta
    #: Of the job that it continues.
    high_water: Json = None
    summary: Summary = Summary()


class SubmitResult(msgspec.Struct, frozen=True):
    """The job for a request, and whether this request created it."""

    job: Job
    created: bool


class SubmitStatus(StrEnum):
    """What has become of one of many requests for jobs."""

    CREATED = "created"
    #: The key was used before for the same request: the job of that request is the answer.
    EXISTING = "existing"
    #: The sync has an active job for the connection, and no other was created.
    ACTIVE = "active"
    #: The request cannot be carried out in the present state; nothing was written for it.
    REFUSED = "refused"


class SubmitOutcome(msgspec.Struct, frozen=True):
    """What has become of one of many requests for jobs, and which job it is about."""

    status: SubmitStatus
    #: The job that was created, that has the key, or that is active.
    job_id: str | None
    #: A request that was refused: the field that is to blame, and why.
    field: str | None = None
    error: HeadgateError | None = None
