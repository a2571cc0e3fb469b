"""The paths of the first specification, in its own spelling, for clients written to it.

The specification has five words for a job's status. Further fields have our own names. The module
is a table of names over the one representation of a job.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate import App, InvalidInput, JobRequest, JsonObject, Mode, NotFound
from headgate.systems.health_history.rows import STATUS_OF, Status
from headgate.toolkit import page_of
from headgate.toolkit.api import (
    IDEMPOTENT,
    JOB_EXAMPLE,
    JOB_ID,
    NOT_MODIFIED,
    After,
    Caller,
    Day,
    IfNoneMatch,
    JobKey,
    Limit,
    Name,
    TheApp,
    TheCaller,
    add_job_controls,
    etag_response,
    fields_of,
    get_problems,
    json_response,
    make_model,
    page_model,
    post_problems,
    request_config,
    router,
    view_for_caller,
)
from headgate.types import Job, JobStatus, JobView

TheirJobId = Annotated[str, Path(alias="jobId", pattern=JOB_ID, description="The job.")]
#: The engine's names of fields, with the seed's.
_WORDS = {"start_date": "startDate", "end_date": "endDate", "user_id": "userId"}

routes = router("/jobs", "Historical jobs")


#: The specification's names for the fields of a job, and further fields with our names.
NAMES = {
    "jobId": "id",
    "userId": "user_id",
    "source": "source",
    "destination": "destination",
    "startDate": "start_date",
    "endDate": "end_date",
    "cursorDate": "cursor_date",
    "status": "state",
    "errorCount": "error_count",
    "lastAttempt": "last_attempt_at",
    "percent": "percent",
    "message": "message",
    "retryable": "retryable",
    "reason": "reason",
    "wake_at": "wake_at",
}
MORE_NAMES = {name: name for name in ("finish", "time_left", "gaps", "poll_after_s")}


class StartHistorical(BaseModel):
    """A job to start: whose history, which days, from which source to which destination."""

    model_config = request_config(
        {
            "source": "fitbit",
            "destination": "strava",
            "startDate": "2021-01-01",
            "endDate": "2023-01-01",
        }
    )

    userId: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    destination: Name | None = None
    startDate: Day
    endDate: Day


def _to_historical_line(job: JobView) -> JsonObject:
    """Return a job in a list, in the specification's words."""
    fields = {theirs: getattr(job, ours) for theirs, ours in NAMES.items()}
    return {**fields, "status": STATUS_OF[job.state]}


def _to_historical_job(status: JobStatus) -> JsonObject:
    """Return a job's status, in the specification's words."""
    return {
        **_to_historical_line(status),
        **{name: getattr(status, ours) for name, ours in MORE_NAMES.items()},
    }


_FIELDS = fields_of(JobStatus)
_LINE = {theirs: _FIELDS[ours] for theirs, ours in NAMES.items()} | {"status": (Status, ...)}
_WHOLE = _LINE | {theirs: _FIELDS[ours] for theirs, ours in MORE_NAMES.items()}

HistoricalLine = make_model(
    "HistoricalLine",
    "A job in a list, in the specification's words.",
    _to_historical_line(JOB_EXAMPLE),
    _LINE,
)
HistoricalJob = make_model(
    "HistoricalJob",
    "A job's status, in the specification's words.",
    _to_historical_job(JOB_EXAMPLE),
    _WHOLE,
)
HistoricalPage = page_model(
    "HistoricalPage",
    "Jobs, the newest first.",
    HistoricalLine,
    _to_historical_line(JOB_EXAMPLE),
)


@contextmanager
def _named_as_sent() -> Iterator[None]:
    """Name a wrong field as the caller knows it."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(_WORDS.get(error.field, error.field), error.problem) from None


@routes.post(
    "",
    operation_id="start_historical_job",
    summary="Start a historical job",
    status_code=202,
    response_model=HistoricalJob,
    dependencies=[IDEMPOTENT],
    responses=post_problems("plan_required", "active_job_exists", "not_connected", "not_found"),
)
async def start(
    request: Request, app: TheApp, caller: TheCaller, key: JobKey, body: StartHistorical
) -> Response:
    """Store a job that reads each day of the range, the newest first."""
    with _named_as_sent():
        wanted = JobRequest(
            user_id=caller.require_user(body.userId),
            source=body.source,
            destination=body.destination,
            start_date=body.startDate,
            end_date=body.endDate,
            key=key,
        )
        job = (await app.jobs.submit(wanted)).job
    status = await app.jobs.status(job.id, user_id=job.user_id)
    location = {"Location": f"/jobs/{job.id}/status"}
    return etag_response(
        request, _to_historical_job(view_for_caller(status, caller)), status=202, headers=location
    )


@routes.get(
    "",
    operation_id="list_historical_jobs",
    summary="List jobs, the newest first",
    response_model=HistoricalPage,
    responses=get_problems(),
)
async def list_jobs(
    app: TheApp,
    caller: TheCaller,
    user_id: Annotated[Name | None, Query(alias="userId", description="Of this user.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """A user's key lists that user's jobs, an admin's everybody's."""
    jobs = await app.jobs.list(
        user_id=caller.visible_user(user_id), mode=Mode.HISTORY, limit=limit + 1, before=after
    )
    lines = [_to_historical_line(each) for each in await app.jobs.views(jobs)]
    return json_response(page_of(lines, limit, cursor=lambda each: str(each["jobId"])))


@routes.get(
    "/{jobId}/status",
    operation_id="get_historical_job_status",
    summary="Get a job's status",
    response_model=HistoricalJob,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def status(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    job_id: TheirJobId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Ask again after `poll_after_s`, with the ETag: an unchanged document is not sent again."""
    await _check(app, job_id, caller)
    found = await app.jobs.status(job_id, user_id=caller.owner)
    return etag_response(request, _to_historical_job(view_for_caller(found, caller)))


async def _check(app: App, job_id: str, caller: Caller) -> None:
    """Raise NotFound for a job that is another's, or no import of history: not of this API."""
    if (await app.jobs.get(job_id, user_id=caller.owner)).mode is not Mode.HISTORY:
        raise NotFound(f"there is no job {job_id!r}")


def _control(operation: Callable[..., Awaitable[Job]]) -> Callable[..., Awaitable[Response]]:
    async def control(
        request: Request, app: TheApp, caller: TheCaller, job_id: TheirJobId
    ) -> Response:
        await _check(app, job_id, caller)
        await operation(app.jobs, job_id, user_id=caller.owner)
        return await status(request, app, caller, job_id)

    return control


add_job_controls(routes, "/{jobId}", "historical_job", HistoricalJob, _control)
