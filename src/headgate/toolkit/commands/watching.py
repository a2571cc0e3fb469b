"""Following an import in the terminal until it ends: a bar where there is a screen, else lines."""

from collections.abc import Sequence
from datetime import datetime

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from headgate.app import App
from headgate.base.encoding import Json
from headgate.flow.explain import format_time
from headgate.flow.status import JobStatus, document
from headgate.model.states import JOB, JobState
from headgate.toolkit.commands.output import counts_text, messages, out, print_json

#: How often the store is asked. Locally that costs nothing; a screen shows no more.
LOOK_EVERY_S = 0.5

#: What the shell is told when the awaited work ended otherwise than well, or not in time.
ENDED_BADLY, STILL_RUNNING = 5, 8


async def watch(app: App, job_id: str, *, user_id: str | None, timeout_s: float | None) -> int:
    """Show the import until it ends; returns the exit code."""
    began_s = app.clock.monotonic()
    with Screen() as screen:
        while True:
            status = await app.jobs.status(job_id, user_id=user_id)
            screen.show(status)
            if status.job.state in JOB.terminal or status.reconnect:
                return 0 if status.job.state is JobState.SUCCESS else ENDED_BADLY
            if timeout_s is not None and app.clock.monotonic() - began_s >= timeout_s:
                return STILL_RUNNING
            await app.clock.sleep(LOOK_EVERY_S)


async def watch_json(app: App, job_id: str, *, user_id: str | None, timeout_s: float | None) -> int:
    """The same for programs: a document a line, whenever it changed."""
    began_s, told = app.clock.monotonic(), None
    while True:
        status = await app.jobs.status(job_id, user_id=user_id)
        shown: Json = document(status)
        if shown != told:
            print_json(shown)
            told = shown
        if status.job.state in JOB.terminal:
            return 0 if status.job.state is JobState.SUCCESS else ENDED_BADLY
        if timeout_s is not None and app.clock.monotonic() - began_s >= timeout_s:
            return STILL_RUNNING
        await app.clock.sleep(LOOK_EVERY_S)


class Screen:
    """A bar that moves, or, where nothing can move, a line for every change."""

    def __init__(self) -> None:
        """On stderr: what is printed at the end is data, this is not."""
        self._bar = Progress(
            BarColumn(bar_width=32),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("{task.description}"),
            console=messages,
            transient=True,
        )
        self._task: TaskID | None = None
        self._told: str | None = None

    def __enter__(self) -> "Screen":
        if messages.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        # To stop a bar that was never shown would print an empty line.
        if messages.is_terminal:
            self._bar.stop()

    def show(self, status: JobStatus, *, beside: Sequence[str] = ()) -> None:
        """How it stands now; `beside` is told after it."""
        text = " · ".join([status.sentence, *_finish(status), *beside])
        if not messages.is_terminal:
            line = f"{numbers(status)}  {status.sentence}"
            if line != self._told:
                messages.print(line, markup=False)
                self._told = line
            return
        progress = status.job.progress
        if self._task is None:
            self._task = self._bar.add_task("", total=None, numbers="")
        self._bar.update(
            self._task,
            total=progress.total or None,
            completed=progress.done,
            description=text.replace("[", r"\["),
            numbers=numbers(status),
        )


def numbers(status: JobStatus) -> str:
    """How far along."""
    progress, percent = status.job.progress, status.percent
    whole = "" if progress.total is None else f"/{progress.total:,}"
    share = "" if percent is None else f" · {percent:g} %"
    return f"{progress.done:,}{whole} days{share}"


def _finish(status: JobStatus) -> list[str]:
    if status.late:
        return ["taking longer than expected"]
    if status.finish is None:
        return []
    return [f"done {span_of(status.finish.earliest, status.finish.latest)}"]


def span_of(earliest: datetime, latest: datetime) -> str:
    """A range of time, for people, no finer than it can be known."""
    first, last = earliest.replace(second=0), latest.replace(second=0)
    if first == last:
        return f"about {format_time(first)}"
    if first.date() == last.date():
        return f"{first:%Y-%m-%d} between {first:%H:%M} and {last:%H:%M} UTC"
    return f"between {format_time(first)} and {format_time(last)}"


def print_status(status: JobStatus) -> None:
    """How an import stands, whole."""
    job, counted = status.job, status.job.summary
    to = "" if job.destination is None else f" → {job.destination}"
    out.print(
        f"{job.source}{to}  user {job.user_id}  {job.state.value.upper()}  {job.id}", markup=False
    )
    out.print(status.sentence, markup=False)
    if job.progress.total:
        out.print(f"{_strip(status)}  {numbers(status)}", markup=False)
    for line in _finish(status):
        out.print(line, markup=False)
    imported = counted.records if job.destination is None else counted.delivered
    out.print(
        f"found {counted.records:,} · imported {imported:,} · refused {counted.refused:,} · "
        f"days without data {counted.days_empty:,} · days that failed {counted.days_failed:,}"
    )
    if counted.counts:
        out.print(f"by the source: {counts_text(counted.counts)}", markup=False)
    for gap in status.gaps:
        out.print(f"  {gap.day}  {gap.error}", markup=False)
    if job.error and job.state is not JobState.SUCCESS:
        out.print(f"last error: {job.error}", markup=False)


def print_status_json(status: JobStatus) -> None:
    """The same for programs."""
    print_json(document(status))


def _strip(status: JobStatus, width: int = 24) -> str:
    filled = int((status.percent or 0.0) * width / 100)
    return "█" * filled + "░" * (width - filled)
