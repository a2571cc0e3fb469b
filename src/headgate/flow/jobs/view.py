"""The view of a job: one representation for the API, the command line, the pages and the systems.

A new field of a job is declared here once. The API's documents are derived from these structs,
`--json` prints them, and a system with other field names maps them. All values come from the store.
Whatever depends on the present moment is given as a time, so a view stays the same until something
happens.

There are two messages: `message` is for the user whose job it is, and `operator` is for whoever
runs the application. `for_user` leaves the second out.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Self

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from headgate.base.encoding import Json
from headgate.base.errors import StoreFault
from headgate.base.failure import Failure, read_failure
from headgate.base.redact import describe_error
from headgate.flow.estimate.outlook import finish_of_job
from headgate.flow.estimate.time_left import ESTIMATING, NO_WORKER, time_left, why_no_estimate
from headgate.flow.items.progress import with_present_progress
from headgate.flow.jobs.explain import day_message, missing_worker, needs_worker, user_message
from headgate.flow.runtime import Runtime
from headgate.flow.view import View, shared_fields
from headgate.model.forecast import Finish
from headgate.model.job import Job, JobEvent, JobParams, Lane, Mode, Progress, Reason
from headgate.model.record import Coverage
from headgate.model.states import JOB, DayStatus, ItemState, JobState
from headgate.model.worker import Worker
from headgate.policy.forecast import is_foreseeable
from headgate.policy.retryable import is_retryable

#: The most days that are listed with their reasons; the counts include all.
GAPS_MAX = 50
#: How often to poll a job that runs, and a job that waits.
POLL_WORKING_S, POLL_RESTING_S = 5, 10
#: Fields of an event that only operators see.
_OPERATORS_DATA = ("error", "note", "worker")


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a job, counted in work, not in time."""

    done: Annotated[int, Meta(description="Days, records or items that are done.")]
    total: Annotated[int | None, Meta(description="null while the total is not known.")]
    at: Annotated[str | None, Meta(description="The present piece of work, such as a day.")]
    items: Annotated[
        Mapping[str, int] | None,
        Meta(description="Items in each state, if the job fetches items one by one; else null."),
    ]


class JobCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of what a job has done, over its whole life.

    Of a job over a collection's items, `found` and `imported` are items.
    """

    found: Annotated[int, Meta(description="Records that were read, or items that are known.")]
    imported: Annotated[
        int, Meta(description="Records that were stored or delivered, or items that are fetched.")
    ]
    refused: Annotated[int, Meta(description="Records that the destination refused.")]
    delivered_before: Annotated[int, Meta(description="Records that the destination had already.")]
    days_held: Annotated[int, Meta(description="Days with data.")]
    days_empty: Annotated[int, Meta(description="Days without data.")]
    days_failed: Annotated[int, Meta(description="Days that could not be read.")]
    errors: Annotated[int, Meta(description="Failed attempts.")]


class OperatorView(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a job's view for operators."""

    error: Annotated[Failure | None, Meta(description="The last error, until the next success.")]
    waits_for: Annotated[str | None, Meta(description="Why no running worker takes the job.")]
    worker: Annotated[str | None, Meta(description="The worker that claimed the job last.")]
    attempts: Annotated[int, Meta(description="Failed attempts at the present chunk.")]
    deferrals: Annotated[int, Meta(description="Times the present chunk was deferred.")]
    crashes: Annotated[int, Meta(description="Workers lost on the present chunk.")]
    pauses: Annotated[int, Meta(description="Times the breaker opened on the present chunk.")]
    pause_requested: Annotated[bool, Meta(description="The job pauses at its next checkpoint.")]
    chunks: Annotated[int, Meta(description="Chunks that are committed.")]
    token: Annotated[int, Meta(description="The number of the last claim; writes carry it.")]
    cursor: Annotated[Json, Meta(description="Where the next chunk begins.")]
    params: Annotated[JobParams, Meta(description="What was asked for: since, limit, options.")]
    key: Annotated[str | None, Meta(description="The idempotency key of the request.")]


class DayView(View, frozen=True, kw_only=True):
    """The status of one day of a backfill."""

    _FOR_OPERATORS = ("error",)

    day: date
    status: Annotated[DayStatus | None, Meta(description="null: not read yet.")]
    records: Annotated[int, Meta(description="Records of that day.")]
    reason: Annotated[str | None, Meta(description="What is missing and why, for the user.")]
    error: Annotated[Failure | None, Meta(description="The same for operators; else null.")]


class Reconnect(msgspec.Struct, frozen=True, kw_only=True):
    """The account at which the user has to sign in again."""

    provider: str
    connection_id: str | None


class JobView(View, frozen=True, kw_only=True):
    """A job as it is shown in a list."""

    _FOR_OPERATORS = ("operator",)

    id: Annotated[str, Meta(description="Also the support code for users.")]
    user_id: str
    sync: str
    source: str
    destination: Annotated[str | None, Meta(description="null: records stay with Headgate.")]
    connection_id: str
    destination_connection_id: str | None
    mode: Mode
    lane: Lane
    state: JobState
    reason: Annotated[Reason, Meta(description="Why the job is in this state.")]
    message: Annotated[
        str, Meta(description="For the user: what happened, what happens next, what to do.")
    ]
    retryable: Annotated[bool, Meta(description="Whether to offer `retry`: it may help.")]
    percent: Annotated[float | None, Meta(description="0 to 100, by work done.")]
    progress: JobProgress
    start_date: Annotated[date | None, Meta(description="The first day, in mode history.")]
    end_date: Annotated[date | None, Meta(description="The last day, included.")]
    cursor_date: Annotated[date | None, Meta(description="The day that is read next.")]
    wake_at: Annotated[datetime | None, Meta(description="When something happens next by itself.")]
    high_water: Annotated[
        Json, Meta(description="The source's last mark: everything up to it has been read.")
    ]
    counts: JobCounts
    source_counts: Annotated[
        Mapping[str, int], Meta(description="The source's own counts, by its own names.")
    ]
    error_count: Annotated[int, Meta(description="Recent failures of the present chunk.")]
    last_attempt_at: Annotated[datetime | None, Meta(description="When a chunk last began.")]
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    operator: Annotated[
        OperatorView | None, Meta(description="For an admin key and the command line; else null.")
    ]

    @property
    def ended(self) -> bool:
        """Whether the job is in a final state."""
        return self.state in JOB.terminal


class JobStatus(JobView, frozen=True, kw_only=True):
    """Everything that is shown of one job."""

    finish: Annotated[
        Finish | None, Meta(description="null while nobody can tell; `time_left` says why.")
    ]
    late: Annotated[bool, Meta(description="Whether the expected end has passed.")]
    time_left: Annotated[
        str | None, Meta(description="For the user: how long it will still take; null: no end.")
    ]
    gaps: Annotated[
        tuple[DayView, ...], Meta(description="Days with something missing, the newest 50.")
    ]
    poll_after_s: Annotated[
        int | None, Meta(description="Ask again after so many seconds; null: the job has ended.")
    ]
    reconnect: Annotated[Reconnect | None, Meta(description="null: no need to sign in again.")]

    def for_user(self) -> Self:
        """The status as the user may see it, its gaps included."""
        shown = super().for_user()
        return replace(shown, gaps=tuple(each.for_user() for each in shown.gaps))


# ---- building views ----------------------------------------------------------------------------


def view_of(
    job: Job,
    *,
    now: datetime,
    titles: Mapping[str, str] | None = None,
    workers: Sequence[Worker] | None = None,
    fault: StoreFault | None = None,
) -> JobView:
    """The view of a job; `titles`, `workers` and `fault` are passed to `user_message`."""
    missing = missing_worker(job, now=now, workers=workers)
    failure = read_failure(job.error or "")
    return JobView(
        **shared_fields(JobView, job, but="progress"),
        message=user_message(job, now=now, titles=titles, workers=workers, fault=fault),
        retryable=is_retryable(job.state, job.reason, failure.kind),
        percent=job.progress.percent,
        progress=_progress(job.progress),
        counts=_counts(job),
        source_counts=job.summary.counts,
        error_count=len(job.recent_errors),
        last_attempt_at=job.attempted_at,
        operator=OperatorView(
            **shared_fields(OperatorView, job, but="error"),
            error=None if job.error is None else failure,
            waits_for=describe_error(fault) if fault and needs_worker(job, now) else missing,
            chunks=job.steps,
        ),
    )


def status_view(
    view: JobView,
    *,
    now: datetime,
    finish: Finish | None = None,
    no_estimate: str | None = None,
    gaps: Sequence[DayView] = (),
    reconnect: Reconnect | None = None,
) -> JobStatus:
    """The status of the job: its view, with its expected end, its gaps and what to reconnect.

    `no_estimate` says why the end cannot be estimated.
    """
    late = finish is not None and finish.latest < now
    poll_after_s = POLL_WORKING_S if view.state is JobState.RUNNING else POLL_RESTING_S
    return JobStatus(
        **shared_fields(JobView, view),
        finish=None if late else finish,
        late=late,
        time_left=no_estimate if finish is None else time_left(finish, now),
        gaps=tuple(gaps),
        poll_after_s=None if view.ended else poll_after_s,
        reconnect=reconnect,
    )


def day_view(day: date, coverage: Coverage | None, *, destination: str | None = None) -> DayView:
    """The view of a day; `destination` is the destination's name for people."""
    if coverage is None:
        return DayView(day=day, status=None, records=0, reason=None, error=None)
    text, failed = coverage.error, coverage.status is DayStatus.FAILED
    error = None
    if text is not None:
        # The destination's text about refused records is not an error with a class.
        error = read_failure(text) if failed else Failure(message=text)
    return DayView(
        day=day,
        status=coverage.status,
        records=coverage.records,
        reason=day_message(coverage.status, refused=text is not None, destination=destination),
        error=error,
    )


def event_for_user(event: JobEvent) -> JobEvent:
    """The event without the fields for operators."""
    data = {name: event.data[name] for name in event.data if name not in _OPERATORS_DATA}
    return replace(event, data=data)


def _progress(progress: Progress) -> JobProgress:
    items = progress.items
    states = {state.value: items.get(state, 0) for state in ItemState} if items else None
    return JobProgress(**shared_fields(JobProgress, progress, but="items"), items=states)


def _counts(job: Job) -> JobCounts:
    summary, items = job.summary, job.progress.items
    found, imported = summary.records, summary.inserted + summary.updated + summary.unchanged
    if job.destination is not None:
        imported = summary.delivered
    if job.progress.collection is not None:
        found, imported = sum(items.values()), items.get(ItemState.SUCCESS, 0)
    return JobCounts(**shared_fields(JobCounts, summary), found=found, imported=imported)


# ---- from the store ----------------------------------------------------------------------------


async def views_of(rt: Runtime, jobs: Sequence[Job]) -> list[JobView]:
    """The views of these jobs; the workers and what is counted anew are read once for all."""
    return await _views(rt, await with_present_progress(rt.items, jobs))


async def _views(rt: Runtime, jobs: Sequence[Job]) -> list[JobView]:
    now = rt.clock.now()
    waiting = any(needs_worker(job, now) for job in jobs)
    workers = await rt.workers.live_workers() if waiting else None
    fault = rt.database.find_fault() if waiting else None
    titles = rt.registry.titles
    return [view_of(job, now=now, titles=titles, workers=workers, fault=fault) for job in jobs]


async def status_of(rt: Runtime, job_id: str, *, user_id: str | None = None) -> JobStatus:
    """The status of the job; NotFound if it belongs to another user."""
    stored = await rt.jobs.get(job_id, user_id=user_id)
    [job] = await with_present_progress(rt.items, [stored])
    [view] = await _views(rt, [job])
    finish, no_estimate = await _finish(rt, job, view)
    return status_view(
        view,
        now=rt.clock.now(),
        finish=finish,
        no_estimate=no_estimate,
        gaps=await _gaps(rt, job),
        reconnect=_reconnect(job),
    )


async def _finish(rt: Runtime, job: Job, view: JobView) -> tuple[Finish | None, str | None]:
    """When the job will end, or why nobody can tell."""
    if not is_foreseeable(job):
        return None, why_no_estimate(job, rt.registry.titles)
    if view.operator is not None and view.operator.waits_for is not None:
        return None, NO_WORKER
    finish = await finish_of_job(rt, job)
    return finish, None if finish else ESTIMATING


async def _gaps(rt: Runtime, job: Job) -> list[DayView]:
    # Only a job that counted failures has gaps to read.
    if job.mode is not Mode.HISTORY or not (job.summary.days_failed or job.summary.refused):
        return []
    found = await rt.coverage.list_gaps(job.id, job.sync, job.connection_id, limit=GAPS_MAX)
    title = rt.registry.titles.get(job.destination or "", job.destination)
    return [day_view(row.day, row, destination=title) for row in found]


def _reconnect(job: Job) -> Reconnect | None:
    if job.state is not JobState.FAILED or job.reason is not Reason.NEEDS_REAUTH:
        return None
    return Reconnect(provider=job.provider, connection_id=job.provider_connection_id)
