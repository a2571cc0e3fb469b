"""What becomes of requests for jobs that are submitted many at once."""

from enum import StrEnum

import msgspec

from headgate.base.errors import HeadgateError


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
