"""Shows how far a command is that works on many rows: a bar on a screen, lines in a pipe."""

from collections.abc import Mapping

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from headgate.base.clock import Clock, SystemClock
from headgate.base.log import configure
from headgate.toolkit.commands.output import counts_text, messages

#: How often a line is written into a pipe, at most.
LINE_EVERY_S = 5.0

NO_COUNTS: Mapping[str, int] = {}


class SendingScreen:
    """The progress of one command, on stderr: only the result is data for stdout."""

    def __init__(self, clock: Clock, title: str, total: int | None, *, quiet: bool = False) -> None:
        """Show nothing if `quiet`; a total that is None is not known."""
        self._clock = clock
        self._title = title
        self._total = total
        self._on_screen = messages.is_terminal and not quiet
        self._in_pipe = not messages.is_terminal and not quiet
        self._told_s = clock.monotonic()
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}", markup=False),
        ]
        if total is not None:
            columns.append(TimeRemainingColumn())
        self._bar = Progress(*columns, console=messages, transient=True)
        self._task: TaskID | None = None

    def __enter__(self) -> "SendingScreen":
        if self._on_screen:
            # The command says by itself what happened; lines of the log would tear the bar.
            configure(SystemClock(), json=False, level="critical")
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total, counts="")
        return self

    def __exit__(self, *_: object) -> None:
        # Stopping a bar that was never shown would print an empty line.
        if self._on_screen:
            self._bar.stop()

    def show(self, done: int, counts: Mapping[str, int] = NO_COUNTS) -> None:
        """Show how many are done, and what became of them."""
        # More may have come meanwhile.
        total = None if self._total is None else max(self._total, done)
        if self._task is not None:
            text = counts_text(counts)
            self._bar.update(self._task, completed=done, total=total, counts=text)
        elif self._in_pipe and self._clock.monotonic() - self._told_s >= LINE_EVERY_S:
            self._told_s = self._clock.monotonic()
            of = "" if total is None else f" of {total:,}"
            parts = [f"{self._title}: {done:,}{of}", counts_text(counts)]
            messages.print(" · ".join(part for part in parts if part), markup=False)
