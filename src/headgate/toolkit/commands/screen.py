"""Shows how far a job is: a bar and the message on a screen, lines in a pipe or in a CI's log."""

from rich.console import Group
from rich.constrain import Constrain
from rich.live import Live
from rich.text import Text

from headgate.base.clock import Clock, SystemClock
from headgate.flow.jobs.view import JobStatus
from headgate.model.job import Mode
from headgate.model.states import JobState
from headgate.toolkit.commands.output import is_animated, messages

#: How wide the display is, at most. A terminal that is made narrower breaks longer lines by itself,
#: and then nobody can know how many lines to clear.
WIDTH_MAX = 60
BAR_WIDTH_MAX = 32
#: A shorter bar says nothing.
BAR_WIDTH_MIN = 6
#: How often a line is written into a pipe while nothing but the numbers changes.
LINE_EVERY_S = 5.0


class Screen:
    """The display of a job, on stderr: only the result at the end is data for stdout."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Measure by `clock` when the next line is due in a pipe."""
        self._clock = clock or SystemClock()
        self._live = Live(console=messages, transient=True, auto_refresh=False)
        self._animated = is_animated()
        self._line = ""
        self._happened: tuple[JobState, str] | None = None
        self._told_s = 0.0

    def __enter__(self) -> "Screen":
        if self._animated:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Stopping a display that was never shown would print an empty line.
        if self._animated:
            self._live.stop()

    def show(self, status: JobStatus) -> None:
        """Show the present status."""
        if self._animated:
            width = min(WIDTH_MAX, messages.width)
            shown = Group(_bar_line(status, width), Text(_sentence(status)))
            self._live.update(Constrain(shown, width), refresh=True)
            return
        line = f"{progress_text(status)}  {_sentence(status)}"
        if line != self._line and self._is_due(status):
            self._line = line
            messages.print(line, markup=False, soft_wrap=True)

    def _is_due(self, status: JobStatus) -> bool:
        """Whether something happened besides progress, or the last line is old enough."""
        # While it runs, the message names one day after another.
        running = status.state is JobState.RUNNING
        happened = (status.state, "" if running else status.message)
        now_s = self._clock.monotonic()
        if happened == self._happened and now_s - self._told_s < LINE_EVERY_S:
            return False
        self._happened, self._told_s = happened, now_s
        return True


def _bar_line(status: JobStatus, width: int) -> Text:
    """The bar, if the whole is known, and the numbers."""
    numbers = progress_text(status)
    room = min(BAR_WIDTH_MAX, width - len(numbers) - 2)
    if status.percent is None or room < BAR_WIDTH_MIN:
        return Text(numbers)
    return Text.assemble((bar_text(status.percent, room), "green"), "  ", numbers)


def bar_text(percent: float, width: int) -> str:
    """A bar that can be read without colour."""
    filled = int(percent * width / 100)
    return "█" * filled + "░" * (width - filled)


def _sentence(status: JobStatus) -> str:
    left = [] if status.time_left is None else [status.time_left]
    return " ".join([status.message, *left])


def progress_text(status: JobStatus) -> str:
    """Return the progress in numbers."""
    progress, percent = status.progress, status.percent
    whole = "" if progress.total is None else f"/{progress.total:,}"
    share = "" if percent is None else f" · {percent:g} %"
    unit = " items" if progress.items is not None else ""
    unit = " days" if status.mode is Mode.HISTORY else unit
    return f"{progress.done:,}{whole}{unit}{share}"
