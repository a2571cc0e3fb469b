"""Follows a job in the terminal until it ends: with a bar on a screen, with lines in a pipe."""

from collections.abc import Sequence

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from headgate.app import App
from headgate.flow.job_view import JobStatus
from headgate.model.job import Mode
from headgate.model.states import JobState
from headgate.toolkit.commands.output import messages, out, print_facts, print_json, state_text

#: How often the status is read. Faster would show nothing more on a screen.
LOOK_EVERY_S = 0.5

#: Exit codes: the job ended without success; it had not ended when the time was up.
ENDED_BADLY, STILL_RUNNING = 5, 8


async def watch(app: App, job_id: str, *, user_id: str | None, timeout_s: float | None) -> int:
    """Show the job until it ends, and return the exit code."""
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
    """Do the same for programs: print a document a line, whenever the status changed."""
    began_s, printed = app.clock.monotonic(), None
    while True:
        status = await app.jobs.status(job_id, user_id=user_id)
        if status != printed:
            print_json(status)
            printed = status
        if status.ended:
            return 0 if status.state is JobState.SUCCESS else ENDED_BADLY
        if timeout_s is not None and app.clock.monotonic() - began_s >= timeout_s:
            return STILL_RUNNING
        await app.clock.sleep(LOOK_EVERY_S)


class Screen:
    """The display of a job: a moving bar on a terminal, else a line for every change."""

    def __init__(self) -> None:
        """Write to stderr: only the result at the end is data for stdout."""
        self._bar = Progress(
            BarColumn(bar_width=32),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("{task.description}"),
            console=messages,
            transient=True,
        )
        self._task: TaskID | None = None
        self._printed: str | None = None

    def __enter__(self) -> "Screen":
        if messages.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Stopping a bar that was never shown would print an empty line.
        if messages.is_terminal:
            self._bar.stop()

    def show(self, status: JobStatus, *, beside: Sequence[str] = ()) -> None:
        """Show the present status, followed by `beside`."""
        left = [] if status.time_left is None else [status.time_left]
        text = " · ".join([status.message, *left, *beside])
        if not messages.is_terminal:
            line = f"{progress_text(status)}  {status.message}"
            if line != self._printed:
                messages.print(line, markup=False)
                self._printed = line
            return
        progress = status.progress
        if self._task is None:
            self._task = self._bar.add_task("", total=None, numbers="")
        # A bar without a total moves: while nothing is being done, it is an empty one instead.
        still = not progress.total and status.state is not JobState.RUNNING
        self._bar.update(
            self._task,
            total=1 if still else progress.total or None,
            completed=0 if still else progress.done,
            description=text.replace("[", r"\["),
            numbers=progress_text(status),
        )


def progress_text(status: JobStatus) -> str:
    """Return the progress in numbers."""
    progress, percent = status.progress, status.percent
    whole = "" if progress.total is None else f"/{progress.total:,}"
    share = "" if percent is None else f" · {percent:g} %"
    unit = " items" if progress.items is not None else ""
    unit = " days" if status.mode is Mode.HISTORY else unit
    return f"{progress.done:,}{whole}{unit}{share}"


def print_status(status: JobStatus) -> None:
    """Print the whole status of a job, for an operator."""
    out.print(Text.assemble((status.id, "bold"), "  ", state_text(status)))
    out.print(status.message, markup=False)
    if status.progress.total:
        out.print(f"{_bar_text(status)}  {progress_text(status)}", markup=False)
    if status.time_left is not None:
        out.print(status.time_left, markup=False)
    print_facts(status)
    for gap in status.gaps:
        out.print(
            f"  {gap.day}  {gap.reason if gap.error is None else gap.error.message}", markup=False
        )


def _bar_text(status: JobStatus, width: int = 24) -> str:
    filled = int((status.percent or 0.0) * width / 100)
    return "█" * filled + "░" * (width - filled)
