"""Follows a job in the terminal until it ends: with a bar on a screen, with lines in a pipe."""

from rich.text import Text

from headgate.app import App
from headgate.flow.jobs.view import JobStatus
from headgate.model.states import JobState
from headgate.toolkit.commands.output import (
    job_facts,
    messages,
    out,
    print_facts,
    print_json,
    state_text,
)
from headgate.toolkit.commands.screen import Screen, bar_text, progress_text

BAR_WIDTH = 24
#: How often the status is read. Faster would show nothing more on a screen.
LOOK_EVERY_S = 0.5

#: The exit code if the job ended without success.
ENDED_BADLY = 5
#: The exit code if it had not ended when the time was up.
STILL_RUNNING = 8


async def watch(app: App, job_id: str, *, user_id: str | None, timeout_s: float | None) -> int:
    """Show the job until it ends, and return the exit code."""
    began_s = app.clock.monotonic()
    with Screen(app.clock) as screen:
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


def print_status(status: JobStatus) -> None:
    """Print the whole status of a job, for an operator."""
    out.print(Text.assemble((status.id, "bold"), "  ", state_text(status)))
    out.print(status.message, markup=False)
    if status.progress.total:
        out.print(
            f"{bar_text(status.percent or 0.0, BAR_WIDTH)}  {progress_text(status)}", markup=False
        )
    if status.time_left is not None:
        out.print(status.time_left, markup=False)
    print_facts(job_facts(status))
    for gap in status.gaps:
        out.print(
            f"  {gap.day}  {gap.reason if gap.error is None else gap.error.message}", markup=False
        )
    print_next(status)


def print_next(status: JobStatus) -> None:
    """Print the command that helps, where somebody has to do something: on stderr, as advice."""
    if (command := reconnect_command(status)) is not None:
        messages.print(f"next: {command}", markup=False, soft_wrap=True)


def reconnect_command(status: JobStatus) -> str | None:
    """The command by which the user signs in again, if they have to."""
    lost = status.reconnect
    if lost is None:
        return None
    return (
        f"headgate connection link {lost.provider} --user {status.user_id} "
        f"--again {lost.connection_id}"
    )
