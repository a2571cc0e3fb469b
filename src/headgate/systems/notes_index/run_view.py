"""A run as the run API tells it: its own words for the one representation of a job."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate import JobState, JsonObject, Mode
from headgate.systems.notes_index.plan import RunCursor
from headgate.systems.notes_index.source import RunOptions, epoch_ms
from headgate.types import Job, JobView


class RunStatus(StrEnum):
    """The status of a run."""

    #: No run was started yet.
    IDLE = "idle"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


STATUS_OF = {
    # It was started: that it waits for a worker, or for Roam, is told by `message`.
    JobState.PENDING: RunStatus.RUNNING,
    JobState.PAUSED: RunStatus.RUNNING,
    JobState.RUNNING: RunStatus.RUNNING,
    JobState.CANCELLING: RunStatus.CANCELLING,
    JobState.CANCELLED: RunStatus.CANCELLED,
    JobState.SUCCESS: RunStatus.SUCCESS,
    JobState.FAILED: RunStatus.FAILED,
}
#: What `error` says in these; in `failed` it is the reason.
_ERRORS = {RunStatus.CANCELLING: "cancel requested", RunStatus.CANCELLED: "cancelled"}


class RunParams(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked for."""

    since: Annotated[int | None, Meta(description="Milliseconds since the epoch.")] = None
    limit: Annotated[int | None, Meta(description="How many pages, at most.")] = None
    clear: bool = False
    recreate_collection: bool = False
    dry_run: Annotated[bool, Meta(description="The run only tells what it would do.")] = False


class Processed(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is, in pages."""

    processed: int
    total: int
    percent: float


class RunProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The last checkpoint of a run."""

    event: str
    batch: Annotated[int | None, Meta(description="The last batch that is done.")]
    processed: Processed
    stats: Annotated[Mapping[str, int], Meta(description="Of all batches so far.")]
    timestamp: datetime


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has done; of a run that did not end well, so far."""

    total_pages: Annotated[int, Meta(description="Pages in the graph.")]
    processed: Annotated[int, Meta(description="Pages that were read.")]
    updated: Annotated[int, Meta(description="Pages that were indexed anew.")]
    skipped_since: Annotated[
        int, Meta(description="Not edited since the given time, or since they were indexed.")
    ]
    skipped_content: Annotated[int, Meta(description="Read, and their text was the same.")]
    failed: Annotated[int, Meta(description="Pages that could not be read or indexed.")]
    removed: Annotated[int, Meta(description="Pages that are gone from the graph.")]
    cursor_max_edit_time: Annotated[
        int | None, Meta(description="Everything edited up to then is indexed, in milliseconds.")
    ]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run, or, with the status `idle`, that there was none yet."""

    status: RunStatus
    run_id: str | None = None
    user_id: str | None = None
    connection_id: str | None = None
    mode: Mode | None = None
    params: RunParams | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    progress: Annotated[RunProgress | None, Meta(description="null before the first.")] = None
    summary: Annotated[RunSummary | None, Meta(description="null before the pages are listed.")] = (
        None
    )
    error: Annotated[str | None, Meta(description="Why it failed, or that it is cancelled.")] = None
    message: Annotated[str, Meta(description="What happens, and what to do.")] = (
        "No run was started yet."
    )


def run_of(job: Job, view: JobView) -> Run:
    """Return the run that a job is; its view is for whoever asks."""
    status = STATUS_OF[job.state]
    return Run(
        status=status,
        run_id=job.id,
        user_id=job.user_id,
        connection_id=job.connection_id,
        mode=job.mode,
        params=_params(job),
        started_at=job.created_at,
        finished_at=job.finished_at,
        progress=_progress(job),
        summary=_summary(job),
        error=_error(status, view),
        message=view.message,
    )


def _params(job: Job) -> RunParams:
    options = msgspec.convert(job.params.options, RunOptions)
    since = job.params.since
    return RunParams(
        since=None if since is None else epoch_ms(since),
        limit=job.params.limit,
        clear=options.clear,
        recreate_collection=options.recreate_collection,
        dry_run=options.dry_run,
    )


def _progress(job: Job) -> RunProgress | None:
    if job.progress.total is None:
        return None
    batches = 0
    if job.cursor is not None:
        # It is where the next batch begins; a run that has ended well keeps that of its last batch.
        batches = RunCursor.read(job.cursor).batch - (job.state is not JobState.SUCCESS)
    return RunProgress(
        event="batch_complete" if batches else "metadata_filtered",
        batch=batches or None,
        processed=Processed(
            processed=job.progress.done,
            total=job.progress.total,
            percent=job.progress.percent or 0.0,
        ),
        stats={
            "pages_updated": _updated(job),
            "pages_failed": _failed(job),
        },
        timestamp=job.updated_at,
    )


def _summary(job: Job) -> RunSummary | None:
    counts = job.summary.counts
    if "total_pages" not in counts:
        return None
    mark = job.high_water
    return RunSummary(
        total_pages=counts["total_pages"],
        processed=counts.get("processed", 0),
        updated=_updated(job),
        skipped_since=counts.get("skipped_since", 0),
        skipped_content=counts.get("skipped_content", 0),
        failed=_failed(job),
        removed=counts.get("removed", 0),
        cursor_max_edit_time=mark if isinstance(mark, int) else None,
    )


def _updated(job: Job) -> int:
    return job.summary.counts.get("updated", 0) - job.summary.refused


def _failed(job: Job) -> int:
    """Pages that could not be read, and those that could not be indexed."""
    return job.summary.counts.get("failed", 0) + job.summary.refused


def _error(status: RunStatus, view: JobView) -> str | None:
    if status is not RunStatus.FAILED:
        return _ERRORS.get(status)
    operator = view.operator
    if operator is not None and operator.error is not None:
        return operator.error.message
    return view.message


def event_document(kind: str, data: JsonObject, at: datetime) -> JsonObject:
    """Return an event in the shape of the run API."""
    return {"event": kind, **data, "timestamp": at}
