"""The API for jobs, under /v1/jobs: start a backfill, follow a job, pause, resume or cancel it."""

from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import Annotated

from fastapi import Body, Path, Query, Request
from starlette.responses import Response

from headgate.flow.jobs.view import DayView, JobView, day_view
from headgate.model.job import Job, JobEvent
from headgate.model.states import JobState
from headgate.secrets.links import PROGRESS_PATH
from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.documents import (
    Day,
    ForecastModel,
    JobModel,
    LinkDocument,
    MakeLink,
    Name,
    StartJob,
    job_request,
    view_for_caller,
)
from headgate.toolkit.api.jobs import (
    ACCEPTED,
    JOB_ID,
    NOT_MODIFIED,
    PAGE_MAX,
    After,
    Limit,
    accepted_response,
    add_job_controls,
)
from headgate.toolkit.api.models import page_model
from headgate.toolkit.api.route import (
    IDEMPOTENT,
    IfNoneMatch,
    JobKey,
    TheApp,
    TheCaller,
    TheSite,
    get_problems,
    post_problems,
    router,
)
from headgate.toolkit.api.streams.event_stream import (
    VARY,
    AfterEvent,
    LastEventId,
    events_response,
    wants_stream,
)
from headgate.toolkit.api.streams.job_stream import end_frame, event_frame, shown_to, stream_job
from headgate.toolkit.paging import Page, page_of

DAYS_MAX = 1000
JobId = Annotated[str, Path(pattern=JOB_ID, description="The job.")]

_TAGGED = {
    "headers": {
        "ETag": {"description": "The version of the document.", "schema": {"type": "string"}},
    }
}
_STREAMED = events_response(event_frame(examples.EVENT), end_frame(examples.ENDED_JOB))

JobPageModel = page_model("JobPage", "Jobs, the newest first.", JobView, examples.JOB_IN_LIST)
EventPageModel = page_model("EventPage", "A job's events, in order.", JobEvent, examples.EVENT)
DayPageModel = page_model("DayPage", "Every day of a job's range, in order.", DayView, examples.DAY)

routes = router("/v1/jobs", "Jobs")


# ---- starting ----------------------------------------------------------------------------------


@routes.post(
    "",
    operation_id="start_job",
    summary="Start a backfill, or forecast one",
    status_code=202,
    response_model=JobModel,
    dependencies=[IDEMPOTENT],
    responses={
        200: {"model": ForecastModel, "description": "The forecast, for `dry_run`."},
        **ACCEPTED,
        **post_problems("plan_required", "active_job_exists", "not_connected", "not_found"),
    },
)
async def start(
    request: Request, app: TheApp, caller: TheCaller, key: JobKey, body: StartJob
) -> Response:
    """Store a job that reads each day of the range, the newest first."""
    wanted = job_request(body, user_id=caller.require_user(body.user_id), key=key)
    if body.dry_run:
        return responses.json_response(await app.jobs.forecast(wanted))
    job = (await app.jobs.submit(wanted)).job
    return await accepted_response(request, app, caller, job)


# ---- following ---------------------------------------------------------------------------------


@routes.get(
    "",
    operation_id="list_jobs",
    summary="List jobs, the newest first",
    response_model=JobPageModel,
    responses=get_problems(),
)
async def list_jobs(
    app: TheApp,
    caller: TheCaller,
    user_id: Annotated[Name | None, Query(description="Of this user.")] = None,
    state: Annotated[list[JobState] | None, Query(description="In one of these states.")] = None,
    sync: Annotated[Name | None, Query(description="Of this sync.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """A user's key lists that user's jobs, an admin's key those of all users."""
    jobs = await app.jobs.list(
        user_id=caller.visible_user(user_id),
        sync=sync,
        states=state or (),
        limit=limit + 1,
        before=after,
    )
    views = [view_for_caller(each, caller) for each in await app.jobs.views(jobs)]
    return responses.json_response(page_of(views, limit))


async def _status(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    job_id: JobId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Poll after `poll_after_s`, with the ETag: an unchanged document is not sent again."""
    status = await app.jobs.status(job_id, user_id=caller.owner)
    return responses.etag_response(request, view_for_caller(status, caller))


for _path, _id in (("/{job_id}", "get_job"), ("/{job_id}/status", "get_job_status")):
    routes.get(
        _path,
        operation_id=_id,
        summary="Get a job's status",
        response_model=JobModel,
        responses={200: _TAGGED, **NOT_MODIFIED, **get_problems("not_found")},
    )(_status)


@routes.get(
    "/{job_id}/events",
    operation_id="list_job_events",
    summary="List a job's events, in order, or stream them",
    response_model=EventPageModel,
    responses={200: _STREAMED, **get_problems("not_found", "too_many_streams")},
)
async def events(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    job_id: JobId,
    limit: Limit = PAGE_MAX,
    after: AfterEvent = 0,
    last_event_id: LastEventId = None,
) -> Response:
    """Lists what happened to the job, the oldest first.

    With `Accept: text/event-stream` it streams: everything after `Last-Event-ID`, or else after
    `after`, then what comes. When the job has ended, the last frame is `end`, with its state.
    """
    if wants_stream(request.headers.get("accept", "")):
        begin = after if last_event_id is None else last_event_id
        return await stream_job(request, caller, job_id, after=begin)
    job = await app.jobs.get(job_id, user_id=caller.owner)
    found = await app.jobs.events(job.id, after=after, limit=limit + 1)
    shown = [shown_to(caller, each) for each in found]
    page = page_of(shown, limit, cursor=lambda each: str(each.id))
    return responses.json_response(page, headers=VARY)


@routes.get(
    "/{job_id}/days",
    operation_id="list_job_days",
    summary="List the days of a job's range, with what is known of each",
    response_model=DayPageModel,
    responses=get_problems("not_found"),
)
async def days(
    app: TheApp,
    caller: TheCaller,
    job_id: JobId,
    limit: Annotated[int, Query(ge=1, le=DAYS_MAX, description="How many, at most.")] = 366,
    after: Annotated[Day | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """Lists every day in order; a day that has not been read yet has no status."""
    job = await app.jobs.get(job_id, user_id=caller.owner)
    if job.start_date is None or job.end_date is None:
        return responses.json_response(Page(data=[], next_cursor=None))
    wanted = _days(max(job.start_date, after or date.min), job.end_date, limit, skip=after)
    if not wanted:
        return responses.json_response(Page(data=[], next_cursor=None))
    rows = await app.records.coverage(job.sync, job.connection_id, start=wanted[0], end=wanted[-1])
    known = {row.day: row for row in rows}
    into = app.registry.titles.get(job.destination or "", job.destination)
    page = [
        view_for_caller(day_view(day, known.get(day), destination=into), caller) for day in wanted
    ]
    more = wanted[-1].isoformat() if wanted[-1] < job.end_date else None
    return responses.json_response(Page(data=page, next_cursor=more))


def _days(first: date, last: date, limit: int, *, skip: date | None) -> list[date]:
    """Return up to `limit` days from `first` to `last`, without `skip`."""
    count = min(limit + 1, (last - first).days + 1)
    listed = [first + timedelta(days=each) for each in range(max(0, count))]
    return [day for day in listed if day != skip][:limit]


# ---- controlling -------------------------------------------------------------------------------


def _control(operation: Callable[..., Awaitable[Job]]) -> Callable[..., Awaitable[Response]]:
    async def control(request: Request, app: TheApp, caller: TheCaller, job_id: JobId) -> Response:
        await operation(app.jobs, job_id, user_id=caller.owner)
        return await _status(request, app, caller, job_id)

    return control


add_job_controls(routes, "/{job_id}", "job", JobModel, _control)


@routes.post(
    "/{job_id}/link",
    operation_id="make_job_link",
    summary="Make a link to the page that shows a job to its user",
    response_model=LinkDocument,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def link(
    site: TheSite,
    caller: TheCaller,
    job_id: JobId,
    body: Annotated[MakeLink | None, Body()] = None,
) -> Response:
    """Whoever has the link may look at the job, and retry it, without a login."""
    job = await site.app.jobs.get(job_id, user_id=caller.owner)
    ttl = timedelta(hours=(body or MakeLink()).ttl_hours)
    path = site.links.progress_path(job_id=job.id, user_id=job.user_id, ttl=ttl)
    made = site.links.open_progress(path.removeprefix(PROGRESS_PATH))
    return responses.secret_response(
        LinkDocument(url=f"{site.public_url}{path}", expires_at=made.expires_at)
    )
