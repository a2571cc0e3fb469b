"""Jobs under /v1: starting, following and steering imports of history."""

from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import Annotated

from fastapi import Body, Path, Query, Request
from msgspec.structs import replace
from starlette.responses import Response

from headgate.app import App
from headgate.flow.backfill import BackfillRequest
from headgate.flow.job_view import DayPage, EventPage, day_view, event_for_user
from headgate.model.job import Job
from headgate.model.states import JobState
from headgate.toolkit.api import responses as answers
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import (
    Day,
    DayPageModel,
    EventPageModel,
    ForecastModel,
    JobModel,
    JobPageModel,
    LinkDocument,
    MakeLink,
    Name,
    StartJob,
    listed,
    shown,
)
from headgate.toolkit.api.jobs import (
    ACCEPTED,
    JOB_ID,
    NOT_MODIFIED,
    PAGE_MAX,
    After,
    Limit,
    accepted,
    check_connection,
    saying,
    started,
)
from headgate.toolkit.api.route import (
    REPEATABLE,
    IfNoneMatch,
    JobKey,
    TheApp,
    TheCaller,
    TheSite,
    posts,
    reads,
    router,
)
from headgate.toolkit.links import PROGRESS_PATH

DAYS_MAX = 1000
JobId = Annotated[str, Path(pattern=JOB_ID, description="The job.")]

_EVENT_ID_MAX = 2**63 - 1
_ENGINE_WORDS = {"start": "start_date", "end": "end_date"}
_CONTROLS = ("not_found", "illegal_transition", "job_cancelled", "conflict")
_TAGGED = {
    "headers": {
        "ETag": {"description": "Of this very document.", "schema": {"type": "string"}},
    }
}

routes = router("/v1/jobs", "Jobs")


# ---- starting ----------------------------------------------------------------------------------


@routes.post(
    "",
    operation_id="start_job",
    summary="Start an import of history, or forecast one",
    status_code=202,
    response_model=JobModel,
    dependencies=[REPEATABLE],
    responses={
        200: {"model": ForecastModel, "description": "The forecast, for `dry_run`."},
        **ACCEPTED,
        **posts("plan_required", "active_job_exists", "not_connected", "not_found"),
    },
)
async def start(
    request: Request, app: TheApp, caller: TheCaller, key: JobKey, body: StartJob
) -> Response:
    """Store a job that reads each day of the range, the newest first."""
    wanted = BackfillRequest(
        user_id=caller.acting_for(body.user_id),
        source=body.source,
        destination=body.destination,
        start=body.start_date,
        end=body.end_date,
        reprocess=body.reprocess,
        connection_id=body.connection_id,
        destination_connection_id=body.destination_connection_id,
        key=key,
    )
    with saying(_ENGINE_WORDS):
        if body.dry_run:
            check_connection(app, caller, wanted.source, wanted.connection_id)
            return answers.document(await app.backfills.forecast(wanted))
        job = await started(app, caller, wanted)
    return await accepted(request, app, caller, job)


# ---- following ---------------------------------------------------------------------------------


@routes.get(
    "",
    operation_id="list_jobs",
    summary="List jobs, the newest first",
    response_model=JobPageModel,
    responses=reads(),
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
    """A user's key lists that user's jobs, an admin's everybody's."""
    jobs = await app.jobs.list(
        user_id=caller.looking_at(user_id),
        sync=sync,
        states=state or (),
        limit=limit + 1,
        before=after,
    )
    return answers.document(await listed(app, jobs, caller, limit=limit))


async def _status(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    job_id: JobId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Ask again after `poll_after_s`, with the ETag: an unchanged document is not sent again."""
    status = await app.jobs.status(job_id, user_id=caller.owner)
    return answers.polled(request, shown(status, caller))


for _path, _id in (("/{job_id}", "get_job"), ("/{job_id}/status", "get_job_status")):
    routes.get(
        _path,
        operation_id=_id,
        summary="How a job stands",
        response_model=JobModel,
        responses={200: _TAGGED, **NOT_MODIFIED, **reads("not_found")},
    )(_status)


@routes.get(
    "/{job_id}/events",
    operation_id="list_job_events",
    summary="A job's story, in order",
    response_model=EventPageModel,
    responses=reads("not_found"),
)
async def events(
    app: TheApp,
    caller: TheCaller,
    job_id: JobId,
    limit: Limit = PAGE_MAX,
    after: Annotated[int, Query(ge=0, le=_EVENT_ID_MAX, description="`next_cursor`.")] = 0,
) -> Response:
    """What happened to the job, event by event."""
    job = await app.jobs.get(job_id, user_id=caller.owner)
    told = await app.jobs.events(job.id, after=after, limit=limit + 1)
    page = [each if caller.is_admin else event_for_user(each) for each in told[:limit]]
    more = str(page[-1].id) if len(told) > limit else None
    return answers.document(EventPage(data=page, next_cursor=more))


@routes.get(
    "/{job_id}/days",
    operation_id="list_job_days",
    summary="What is known of each day of a job's range",
    response_model=DayPageModel,
    responses=reads("not_found"),
)
async def days(
    app: TheApp,
    caller: TheCaller,
    job_id: JobId,
    limit: Annotated[int, Query(ge=1, le=DAYS_MAX, description="How many, at most.")] = 366,
    after: Annotated[Day | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """Every day in order; one that nobody has read yet has no status."""
    job = await app.jobs.get(job_id, user_id=caller.owner)
    if job.start_date is None or job.end_date is None:
        return answers.document(DayPage(data=[], next_cursor=None))
    wanted = _days(max(job.start_date, after or date.min), job.end_date, limit, skip=after)
    if not wanted:
        return answers.document(DayPage(data=[], next_cursor=None))
    rows = await app.records.coverage(job.sync, job.connection_id, start=wanted[0], end=wanted[-1])
    known = {row.day: row for row in rows}
    into = app.registry.titles.get(job.destination or "", job.destination)
    page = [day_view(day, known.get(day), destination=into) for day in wanted]
    if not caller.is_admin:
        page = [replace(each, error=None) for each in page]
    more = wanted[-1].isoformat() if wanted[-1] < job.end_date else None
    return answers.document(DayPage(data=page, next_cursor=more))


def _days(first: date, last: date, limit: int, *, skip: date | None) -> list[date]:
    """Up to `limit` days from `first` to `last`, without `skip`."""
    count = min(limit + 1, (last - first).days + 1)
    found = [first + timedelta(days=each) for each in range(max(0, count))]
    return [day for day in found if day != skip][:limit]


# ---- steering ----------------------------------------------------------------------------------


async def _steered(
    request: Request, app: App, steer: Callable[..., Awaitable[Job]], job_id: str, caller: Caller
) -> Response:
    job = await steer(job_id, user_id=caller.owner)
    status = await app.jobs.status(job.id, user_id=caller.owner)
    return answers.polled(request, shown(status, caller))


@routes.post(
    "/{job_id}/retry",
    operation_id="retry_job",
    summary="Try a paused or failed job again at once",
    response_model=JobModel,
    dependencies=[REPEATABLE],
    responses=posts(*_CONTROLS, "active_job_exists"),
)
async def retry(request: Request, app: TheApp, caller: TheCaller, job_id: JobId) -> Response:
    """A job that is under way already is left as it is."""
    return await _steered(request, app, app.jobs.retry_now, job_id, caller)


@routes.post(
    "/{job_id}/pause",
    operation_id="pause_job",
    summary="Let a job stand still until it is resumed",
    response_model=JobModel,
    dependencies=[REPEATABLE],
    responses=posts(*_CONTROLS),
)
async def pause(request: Request, app: TheApp, caller: TheCaller, job_id: JobId) -> Response:
    """A running job stops at its next checkpoint."""
    return await _steered(request, app, app.jobs.pause, job_id, caller)


@routes.post(
    "/{job_id}/resume",
    operation_id="resume_job",
    summary="Let a paused job go on",
    response_model=JobModel,
    dependencies=[REPEATABLE],
    responses=posts(*_CONTROLS),
)
async def resume(request: Request, app: TheApp, caller: TheCaller, job_id: JobId) -> Response:
    """It goes on from where it stopped."""
    return await _steered(request, app, app.jobs.resume, job_id, caller)


@routes.post(
    "/{job_id}/cancel",
    operation_id="cancel_job",
    summary="End a job",
    response_model=JobModel,
    dependencies=[REPEATABLE],
    responses=posts(*_CONTROLS),
)
async def cancel(request: Request, app: TheApp, caller: TheCaller, job_id: JobId) -> Response:
    """A running one is `cancelling` until its worker lets go. What is imported stays."""
    return await _steered(request, app, app.jobs.cancel, job_id, caller)


@routes.post(
    "/{job_id}/link",
    operation_id="make_job_link",
    summary="A link to the page that shows a job to its user",
    response_model=LinkDocument,
    dependencies=[REPEATABLE],
    responses=posts("not_found"),
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
    path = site.links.progress(job_id=job.id, user_id=job.user_id, ttl=ttl)
    made = site.links.open_progress(path.removeprefix(PROGRESS_PATH))
    return answers.secret(LinkDocument(url=f"{site.public_url}{path}", expires_at=made.expires_at))
