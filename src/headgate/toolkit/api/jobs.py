"""Parts that every API about jobs shares: request parameters, starting a job, the response."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from headgate.app import App
from headgate.base.errors import InvalidInput
from headgate.flow.backfill import BackfillRequest
from headgate.model.job import Job
from headgate.toolkit.api import responses
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name, view_for_caller

PAGE_MAX = 200
#: The form of a job id; any other id is NotFound without a query.
JOB_ID = r"^[A-Za-z0-9_-]{1,100}$"
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")]
After = Annotated[Name | None, Query(description="`next_cursor` of the page before.")]
#: The engine's names of fields, with the API's.
ENGINE_WORDS = {"start": "start_date", "end": "end_date"}
#: The OpenAPI response of a request that starts a job.
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The job is stored, and a worker starts it.",
        "headers": {"Location": {"schema": {"type": "string"}}},
    }
}
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "Nothing has changed since the version that you have."}
}


async def start_backfill(app: App, caller: Caller, wanted: BackfillRequest) -> Job:
    """Start the backfill; with a key that was used before, return the job it started then."""
    check_connection(app, caller, wanted.source, wanted.connection_id)
    return (await app.backfills.start(wanted)).job


def check_connection(app: App, caller: Caller, source: str, named: str | None) -> None:
    """Refuse a user's key that names a foreign connection of a source without accounts.

    At such a source a connection is only a name, and a user's own is the user's id. Where there are
    accounts, the store knows whose each connection is.
    """
    if caller.is_admin or source in app.registry.auths or named in (None, caller.owner):
        return
    raise InvalidInput("connection_id", f"users have no accounts at {source}: leave it out")


async def accepted_response(request: Request, app: App, caller: Caller, job: Job) -> Response:
    """Return the response to the request that started the job."""
    status = await app.jobs.status(job.id, user_id=job.user_id)
    location = {"Location": f"/v1/jobs/{job.id}"}
    return responses.etag_response(
        request, view_for_caller(status, caller), status=202, headers=location
    )


@contextmanager
def rename_fields(words: Mapping[str, str]) -> Iterator[None]:
    """Name a wrong field as the caller knows it, where the engine's name differs."""
    try:
        yield
    except InvalidInput as error:
        if error.field not in words:
            raise
        raise InvalidInput(words[error.field], error.problem) from None
