"""Following an import in the terminal until it ends: a bar where there is a screen, else lines."""

from collections.abc import Sequence
from datetime import datetime

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from headgate.app import App
from headgate.flow.explain import format_time
from headgate.flow.job_view import JobStatus
from headgate.model.states import JobState
from headgate.toolkit.commands.output import messages, out, print_facts, print_json, state_text

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
            if status.ended:
                return 0 if status.state is JobState.SUCCESS else ENDED_BADLY
            if timeout_s is not None and app.clock.monotonic() - began_s >= timeout_s:
                return STILL_RUNNING
            await app.clock.sleep(LOOK_EVERY_S)


async def watch_json(app: App, job_id: str, *, user_id: str | None, timeout_s: float | None) -> int:
    """The same for programs: a document a line, whenever it changed."""
    began_s, told = app.clock.monotonic(), None
    while True:
        status = await app.jobs.status(job_id, user_id=user_id)
        if status != told:
            print_json(status)
            told = status
        if status.ended:
            return 0 if status.state is JobState.SUCCESS else ENDED_BADLY
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
        text = " · ".join([status.message, *_finish(status), *beside])
        if not messages.is_terminal:
            line = f"{numbers(status)}  {status.message}"
            if line != self._told:
                messages.print(line, markup=False)
                self._told = line
            return
        progress = status.progress
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
    progress, percent = status.progress, status.percent
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
    """How a job stands, whole, for an operator."""
    out.print(Text.assemble((status.id, "bold"), "  ", state_text(status)))
    out.print(status.message, markup=False)
    if status.progress.total:
        out.print(f"{_strip(status)}  {numbers(status)}", markup=False)
    for line in _finish(status):
        out.print(line, markup=False)
    print_facts(status)
    for gap in status.gaps:
        out.print(
            f"  {gap.day}  {gap.reason if gap.error is None else gap.error.message}", markup=False
        )


def _strip(status: JobStatus, width: int = 24) -> str:
    filled = int((status.percent or 0.0) * width / 100)
    return "█" * filled + "░" * (width - filled)
