"""The texts and numbers of the progress page, from a job's status: pure, so easy to test."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from headgate.base.times import format_time
from headgate.flow.jobs.view import GAPS_MAX, JobStatus, JobView
from headgate.model.job import Mode, Reason
from headgate.model.states import DayStatus, ItemState, JobState
from headgate.toolkit.pages.rendering import Mark, Tile

#: A screen reader announces every quarter of the way, and nothing in between.
MILESTONE_PERCENT = 25


class TimeText(msgspec.Struct, frozen=True):
    """A time as text for people, and as ISO 8601 for machines."""

    text: str
    iso: str


class Gap(msgspec.Struct, frozen=True):
    """A day that is missing, or imported only in part."""

    day: str
    reason: str
    partly: bool


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the progress page shows."""

    job_id: str
    title: str
    mark: Mark
    message: str
    what: str
    #: The first and the last day of a backfill.
    days: tuple[str, str] | None
    #: None while the total is not known.
    percent: float | None
    percent_text: str | None
    #: Whether the bar moves without a percentage: something is being done, and nobody knows how
    #: much there is.
    moves: bool
    #: How long it will still take, or why nobody can tell.
    time_left: str | None
    tiles: tuple[Tile, ...]
    gaps: tuple[Gap, ...]
    #: Whether there are more days with gaps than those listed.
    more_gaps: bool
    can_retry: bool
    #: The path of the link to sign in again, and the provider's title.
    reconnect_path: str | None
    reconnect_title: str | None
    closing: str | None
    times: tuple[tuple[str, TimeText], ...]
    #: Announced by screen readers when it changes.
    milestone: str
    poll_after_s: int | None


def progress_view(
    status: JobStatus, titles: Mapping[str, str], *, reconnect_path: str | None = None
) -> ProgressView:
    """Return the page's texts; `reconnect_path` is the link to sign in again, if there is one."""
    what, mark = _what(status, titles), _mark(status)
    percent = status.percent
    again = status.reconnect.provider if status.reconnect and reconnect_path else None
    return ProgressView(
        job_id=status.id,
        title=f"{mark.word} · {what}",
        mark=mark,
        message=status.message,
        what=what,
        days=_days(status),
        percent=percent,
        percent_text=None if percent is None else f"{int(percent)}%",
        moves=percent is None and status.state is JobState.RUNNING,
        time_left=status.time_left,
        tiles=_tiles(status),
        gaps=tuple(
            Gap(each.day.isoformat(), each.reason or "", each.status is not DayStatus.FAILED)
            for each in status.gaps
        ),
        more_gaps=len(status.gaps) >= GAPS_MAX,
        can_retry=status.retryable,
        reconnect_path=reconnect_path if again else None,
        reconnect_title=titles.get(again, again) if again else None,
        closing=_closing(status),
        times=_times(status),
        milestone=_milestone(status),
        poll_after_s=status.poll_after_s,
    )


_MARKS = {
    JobState.PENDING: Mark("Waiting", "clock", "calm"),
    JobState.RUNNING: Mark("Importing", "arrow", "calm"),
    JobState.PAUSED: Mark("Paused", "pause", "wait"),
    JobState.CANCELLING: Mark("Stopping", "stop", "quiet"),
    JobState.CANCELLED: Mark("Cancelled", "stop", "quiet"),
    JobState.SUCCESS: Mark("Done", "check", "good"),
    JobState.FAILED: Mark("Failed", "cross", "bad"),
}
_WAITS = (
    Reason.RETRYING,
    Reason.DEFERRED,
    Reason.RATE_LIMITED,
    Reason.NO_LIMITER,
    Reason.CONNECTION_PAUSED,
    Reason.RECORDS_CLAIMED,
    Reason.IDLE,
)


def _mark(job: JobView) -> Mark:
    if job.state is JobState.PENDING and job.reason in _WAITS:
        return Mark("Waiting", "clock", "wait")
    if job.state is JobState.FAILED and job.reason is Reason.NEEDS_REAUTH:
        return Mark("Sign-in needed", "key", "wait")
    if job.state is JobState.SUCCESS and (job.counts.days_failed or job.counts.refused):
        return Mark("Done, with gaps", "check", "wait")
    return _MARKS[job.state]


def _what(job: JobView, titles: Mapping[str, str]) -> str:
    source = titles.get(job.source, job.source)
    kind = "history" if job.mode is Mode.HISTORY else "data"
    into = (
        "" if job.destination is None else f" into {titles.get(job.destination, job.destination)}"
    )
    doing = "Import of" if job.ended else "Importing"
    return f"{doing} your {source} {kind}{into}"


def _days(job: JobView) -> tuple[str, str] | None:
    if job.start_date is None or job.end_date is None:
        return None
    return job.start_date.isoformat(), job.end_date.isoformat()


def _time_text(at: datetime) -> TimeText:
    return TimeText(format_time(at), at.isoformat(timespec="seconds"))


def _tiles(job: JobView) -> tuple[Tile, ...]:
    if job.progress.items is not None:
        return _item_tiles(job, job.progress.items)
    counts = job.counts
    days, refused = counts.days_failed, counts.refused
    kinds = ((days, "day"), (refused, "record"))
    # What another job had brought there before is imported too, as its user sees it.
    imported = counts.imported + counts.delivered_before
    tiles = [
        Tile(name="found", label="Found", value=f"{counts.found:,}"),
        Tile(name="imported", label="Imported", value=f"{imported:,}"),
        Tile(
            name="failed",
            label="Couldn't import",
            value=f"{days + refused:,}",
            note=" · ".join(_count_text(count, word) for count, word in kinds if count),
        ),
    ]
    if job.mode is Mode.HISTORY:
        empty = Tile(name="empty", label="Days without data", value=f"{counts.days_empty:,}")
        tiles.insert(2, empty)
    return tuple(tiles)


def _item_tiles(job: JobView, items: Mapping[str, int]) -> tuple[Tile, ...]:
    """Return the numbers of a job that fetches items one by one."""
    progress, empty = job.progress, items[ItemState.UNAVAILABLE]
    failed = progress.done - items[ItemState.SUCCESS] - empty
    tiles = [
        Tile(name="found", label="Found", value=f"{job.counts.found:,}"),
        Tile(name="imported", label="Imported", value=f"{job.counts.imported:,}"),
        Tile(name="empty", label="Without data", value=f"{empty:,}"),
        Tile(name="failed", label="Couldn't import", value=f"{failed:,}"),
    ]
    if progress.total is not None:
        left = Tile(name="left", label="Still to come", value=f"{progress.total - progress.done:,}")
        tiles.insert(2, left)
    return tuple(tiles)


def _count_text(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' if count != 1 else ''}"


def _closing(job: JobView) -> str | None:
    match job.state:
        case JobState.SUCCESS | JobState.CANCELLED:
            return "You can close this page."
        case JobState.FAILED | JobState.CANCELLING:
            return None
        case JobState.PAUSED if job.reason is Reason.OPERATOR:
            return "You can close this page; the import waits."
        case _:
            return "You can close this page; the import goes on."


def _times(job: JobView) -> tuple[tuple[str, TimeText], ...]:
    times = (
        ("Started", job.started_at or job.created_at),
        ("Ended", job.finished_at) if job.finished_at else ("Last change", job.updated_at),
    )
    return tuple((word, _time_text(at)) for word, at in times)


def _milestone(status: JobStatus) -> str:
    """Return what a screen reader announces: not every chunk, and not every wait for a worker."""
    if status.state not in (JobState.PENDING, JobState.RUNNING):
        return status.message
    reached = int(status.percent or 0) // MILESTONE_PERCENT * MILESTONE_PERCENT
    return f"{reached}% imported." if reached else "The import has started."
