"""The paths of the first specification, in its own spelling, for clients that were written to it.

It knows five words for a job's status. What else there is to tell comes along under our own names.
"""

from collections.abc import Awaitable, Callable
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate import App, BackfillRequest, Job, JobState, JobStatus, Reason
from headgate.toolkit.api import examples
from headgate.toolkit.api import responses as answers
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Day, FinishDocument, Gap, Name, Page, shown, shows, takes
from headgate.toolkit.api.jobs import JOB_ID, NOT_MODIFIED, After, Limit, saying, started
from headgate.toolkit.api.route import (
    REPEATABLE,
    IfNoneMatch,
    JobKey,
    TheApp,
    TheCaller,
    posts,
    reads,
    router,
)

TheirJobId = Annotated[str, Path(alias="jobId", pattern=JOB_ID, description="The job.")]
_CONTROLS = ("not_found", "illegal_transition", "conflict")
_ENGINE_WORDS = {"start": "startDate", "end": "endDate", "user_id": "userId"}

routes = router("/jobs", "Historical jobs")


class Status(StrEnum):
    """The words of the specification."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


#: A job that was cancelled has not done what it was started for; `reason` says why.
STATUS_OF = {
    JobState.PENDING: Status.PENDING,
    JobState.RUNNING: Status.RUNNING,
    JobState.PAUSED: Status.PAUSED,
    JobState.CANCELLING: Status.RUNNING,
    JobState.CANCELLED: Status.FAILED,
    JobState.SUCCESS: Status.COMPLETED,
    JobState.FAILED: Status.FAILED,
}


class StartHistorical(BaseModel):
    """Which days of whose history, from where to where."""

    model_config = takes(examples.HISTORICAL_START)

    userId: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    destination: Name | None = None
    startDate: Day
    endDate: Day


class HistoricalLine(BaseModel):
    """The specification's job item, as it stands in a list."""

    model_config = shows(examples.HISTORICAL_LINE)

    jobId: str
    userId: str
    source: str
    destination: str | None
    startDate: date | None
    endDate: date | None
    cursorDate: date | None = Field(description="The day currently being processed.")
    status: Status
    errorCount: int
    lastAttempt: datetime | None
    percent: float | None
    sentence: str = Field(description="What is going on, to be shown to people.")
    reason: Reason
    wake_at: datetime | None


class HistoricalJob(HistoricalLine):
    """The specification's job item, and what else there is to tell."""

    model_config = shows(examples.HISTORICAL)

    finish: FinishDocument | None
    gaps: list[Gap]
    poll_after_s: int | None


class HistoricalPage(Page[HistoricalLine]):
    """Jobs, the newest first."""

    model_config = shows({"data": [examples.HISTORICAL_LINE], "next_cursor": None})


def _line(job: Job, sentence: str) -> HistoricalLine:
    return HistoricalLine(
        jobId=job.id,
        userId=job.user_id,
        source=job.source,
        destination=job.destination,
        startDate=job.start_date,
        endDate=job.end_date,
        cursorDate=job.cursor_date,
        status=STATUS_OF[job.state],
        errorCount=len(job.recent_errors),
        lastAttempt=job.attempted_at,
        percent=job.progress.percent,
        sentence=sentence,
        reason=job.reason,
        wake_at=job.wake_at,
    )


def _shown(status: JobStatus) -> HistoricalJob:
    ours = shown(status)
    return HistoricalJob(
        **dict(_line(status.job, status.sentence)),
        finish=ours.finish,
        gaps=ours.gaps,
        poll_after_s=ours.poll_after_s,
    )


@routes.post(
    "",
    operation_id="start_historical_job",
    summary="Start a historical job",
    status_code=202,
    response_model=HistoricalJob,
    dependencies=[REPEATABLE],
    responses=posts("plan_required", "active_job_exists", "not_connected", "not_found"),
)
async def start(
    request: Request, app: TheApp, caller: TheCaller, key: JobKey, body: StartHistorical
) -> Response:
    """Store a job that reads each day of the range, the newest first."""
    with saying(_ENGINE_WORDS):
        wanted = BackfillRequest(
            user_id=caller.acting_for(body.userId),
            source=body.source,
            destination=body.destination,
            start=body.startDate,
            end=body.endDate,
            key=key,
        )
        job = await started(app, caller, wanted)
    status = await app.jobs.status(job.id, user_id=job.user_id)
    location = {"Location": f"/jobs/{job.id}/status"}
    return answers.polled(request, _shown(status), status=202, headers=location)


@routes.get(
    "",
    operation_id="list_historical_jobs",
    summary="List jobs, the newest first",
    response_model=HistoricalPage,
    responses=reads(),
)
async def list_jobs(
    app: TheApp,
    caller: TheCaller,
    user_id: Annotated[Name | None, Query(alias="userId", description="Of this user.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """A user's key lists that user's jobs, an admin's everybody's."""
    jobs = await app.jobs.list(user_id=caller.looking_at(user_id), limit=limit + 1, before=after)
    sentences = await app.jobs.explain_all(jobs[:limit])
    page = [_line(*each) for each in zip(jobs, sentences, strict=False)]
    more = page[-1].jobId if len(jobs) > limit else None
    return answers.document(HistoricalPage(data=page, next_cursor=more))


@routes.get(
    "/{jobId}/status",
    operation_id="get_historical_job_status",
    summary="How a job stands",
    response_model=HistoricalJob,
    responses={**NOT_MODIFIED, **reads("not_found")},
)
async def status(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    job_id: TheirJobId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Ask again after `poll_after_s`, with the ETag: an unchanged document is not sent again."""
    found = await app.jobs.status(job_id, user_id=caller.owner)
    return answers.polled(request, _shown(found))


async def _steered(
    request: Request, app: App, steer: Callable[..., Awaitable[Job]], job_id: str, caller: Caller
) -> Response:
    job = await steer(job_id, user_id=caller.owner)
    found = await app.jobs.status(job.id, user_id=caller.owner)
    return answers.polled(request, _shown(found))


@routes.post(
    "/{jobId}/retry",
    operation_id="retry_historical_job",
    summary="Retry now",
    response_model=HistoricalJob,
    dependencies=[REPEATABLE],
    responses=posts(*_CONTROLS, "active_job_exists"),
)
async def retry(request: Request, app: TheApp, caller: TheCaller, job_id: TheirJobId) -> Response:
    """A paused or failed job is PENDING again at once."""
    return await _steered(request, app, app.jobs.retry_now, job_id, caller)


@routes.post(
    "/{jobId}/pause",
    operation_id="pause_historical_job",
    summary="Let a job stand still until it is resumed",
    response_model=HistoricalJob,
    dependencies=[REPEATABLE],
    responses=posts(*_CONTROLS),
)
async def pause(request: Request, app: TheApp, caller: TheCaller, job_id: TheirJobId) -> Response:
    """A running job stops at its next checkpoint."""
    return await _steered(request, app, app.jobs.pause, job_id, caller)


@routes.post(
    "/{jobId}/resume",
    operation_id="resume_historical_job",
    summary="Let a paused job go on",
    response_model=HistoricalJob,
    dependencies=[REPEATABLE],
    responses=posts(*_CONTROLS),
)
async def resume(request: Request, app: TheApp, caller: TheCaller, job_id: TheirJobId) -> Response:
    """It goes on from where it stopped."""
    return await _steered(request, app, app.jobs.resume, job_id, caller)


@routes.post(
    "/{jobId}/cancel",
    operation_id="cancel_historical_job",
    summary="End a job",
    response_model=HistoricalJob,
    dependencies=[REPEATABLE],
    responses=posts(*_CONTROLS),
)
async def cancel(request: Request, app: TheApp, caller: TheCaller, job_id: TheirJobId) -> Response:
    """What is imported stays."""
    return await _steered(request, app, app.jobs.cancel, job_id, caller)
