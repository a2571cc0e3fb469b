"""What every API about jobs needs, in whatever words: starting them, and parameters of requests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from headgate.app import App
from headgate.base.errors import InvalidInput
from headgate.flow.backfill import BackfillRequest
from headgate.model.job import Job
from headgate.toolkit.api import responses as answers
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name, shown

PAGE_MAX = 200
#: What an id may look like; others are NotFound without a look.
JOB_ID = r"^[A-Za-z0-9_-]{1,100}$"
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")]
After = Annotated[Name | None, Query(description="`next_cursor` of the page before.")]
#: How a job that is started by a request is answered.
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The job is stored, and starts by itself.",
        "headers": {"Location": {"schema": {"type": "string"}}},
    }
}
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "You have the newest already."}
}


async def started(app: App, caller: Caller, wanted: BackfillRequest) -> Job:
    """The job that was made, or that the same key made before."""
    check_connection(app, caller, wanted.source, wanted.connection_id)
    return (await app.backfills.start(wanted)).job


def check_connection(app: App, caller: Caller, source: str, named: str | None) -> None:
    """Where users have no accounts, a connection is a mere name: theirs is their own id.

    Where they have accounts, the store knows whose each is.
    """
    if caller.is_admin or source in app.registry.auths or named in (None, caller.owner):
        return
    raise InvalidInput("connection_id", f"users have no accounts at {source}: leave it out")


async def accepted(request: Request, app: App, caller: Caller, job: Job) -> Response:
    """The answer to whoever started the job."""
    status = await app.jobs.status(job.id, user_id=job.user_id)
    location = {"Location": f"/v1/jobs/{job.id}"}
    return answers.polled(request, shown(status, caller), status=202, headers=location)


@contextmanager
def saying(words: Mapping[str, str]) -> Iterator[None]:
    """Name fields as the caller knows them, where the engine has other words."""
    try:
        yield
    except InvalidInput as error:
        if error.field not in words:
            raise
        raise InvalidInput(words[error.field], error.problem) from None
