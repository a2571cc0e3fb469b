"""Parts that every API about jobs shares: request parameters, the response, the verbs."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from headgate.app import App
from headgate.flow.jobs.service import Jobs
from headgate.model.job import Job
from headgate.toolkit.api import responses
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name, view_for_caller
from headgate.toolkit.api.route import IDEMPOTENT, post_problems

PAGE_MAX = 200
#: The form of a job id; any other id is NotFound without a query.
JOB_ID = r"^[A-Za-z0-9_-]{1,100}$"
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")]
After = Annotated[Name | None, Query(description="`next_cursor` of the page before.")]
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

#: What may be done to a job: its verb, the operation, and the words for both.
_CONTROLS = (
    (
        "retry",
        Jobs.retry_now,
        "Try a paused or failed job again at once",
        "A job that runs or waits already is left as it is. Offer it if `retryable` is true.",
    ),
    (
        "pause",
        Jobs.pause,
        "Pause a job until it is resumed",
        "A running job stops after its present chunk.",
    ),
    ("resume", Jobs.resume, "Resume a paused job", "The job goes on where it stopped."),
    (
        "cancel",
        Jobs.cancel,
        "Cancel a job",
        "A running job is cancelled as soon as its worker has stopped. What is imported stays.",
    ),
)
_CONTROL_PROBLEMS = ("not_found", "illegal_transition", "job_cancelled", "conflict")


def add_job_controls(
    routes: APIRouter,
    path: str,
    noun: str,
    model: type[BaseModel],
    endpoint: Callable[[Callable[..., Awaitable[Job]]], Callable[..., Awaitable[Response]]],
) -> None:
    """Add a POST for each verb of the jobs at `path`, which are called `noun` in operation ids.

    `endpoint` makes the function of a route, which does the operation and responds with a `model`.
    """
    for verb, operation, summary, description in _CONTROLS:
        more = ("active_job_exists",) if verb == "retry" else ()
        routes.post(
            f"{path}/{verb}",
            operation_id=f"{verb}_{noun}",
            summary=summary,
            description=description,
            response_model=model,
            dependencies=[IDEMPOTENT],
            responses=post_problems(*_CONTROL_PROBLEMS, *more),
        )(endpoint(operation))


async def accepted_response(request: Request, app: App, caller: Caller, job: Job) -> Response:
    """Return the response to the request that started the job."""
    status = await app.jobs.status(job.id, user_id=job.user_id)
    location = {"Location": f"/v1/jobs/{job.id}"}
    return responses.etag_response(
        request, view_for_caller(status, caller), status=202, headers=location
    )
