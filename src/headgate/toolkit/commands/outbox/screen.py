"""Shows how far a command is that works on many rows: a bar on a screen, lines in a pipe."""

from collections.abc import Mapping

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from headgate.base.clock import Clock, SystemClock
from headgate.base.log import configure
from headgate.toolkit.commands.output import counts_text, is_animated, messages
from headgate.toolkit.commands.screen import BAR_WIDTH_MAX, BAR_WIDTH_MIN, LINE_EVERY_S

#: With so many columns there is room for the remaining time.
WIDE = 80

NO_COUNTS: Mapping[str, int] = {}


class SendingScreen:
    """The progress of one command, on stderr: only the result is data for stdout.

    It has a bar for each part of the work, such as for each target.
    """

    def __init__(
        self, clock: Clock, totals: Mapping[str, int | None], *, quiet: bool = False
    ) -> None:
        """Show a bar for each of `totals`, by its title; a total that is None is not known.

        Show nothing if `quiet`.
        """
        self._clock = clock
        self._totals = totals
        animated = is_animated()
        self._on_screen = animated and not quiet
        self._in_pipe = not animated and not quiet
        self._told_s = dict.fromkeys(totals, clock.monotonic())
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False),
            # The numbers need the rest: nothing is cut in a terminal of 60 columns. Where they are
            # long, the bar becomes shorter: a column of text keeps its width.
            BarColumn(bar_width=max(BAR_WIDTH_MIN, min(BAR_WIDTH_MAX, messages.width - 60))),
            TextColumn("{task.fields[done]}", markup=False),
            TextColumn("{task.fields[counts]}", markup=False),
        ]
        if None not in totals.values() and messages.width >= WIDE:
            columns.append(TimeRemainingColumn())
        self._bars = Progress(*columns, console=messages, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "SendingScreen":
        if self._on_screen:
            # The command says by itself what happened; lines of the log would tear the bars.
            configure(SystemClock(), json=False, level="critical")
            self._bars.start()
            self._tasks = {
                title: self._bars.add_task(title, total=total, done=_done(0, total), counts="")
                for title, total in self._totals.items()
            }
        return self

    def __exit__(self, *_: object) -> None:
        # Stopping bars that were never shown would print an empty line.
        if self._on_screen:
            self._bars.stop()

    def show(self, title: str, done: int, counts: Mapping[str, int] = NO_COUNTS) -> None:
        """Show how many of a part are done, and what became of them."""
        total = self._totals[title]
        # More may have come meanwhile.
        total = None if total is None else max(total, done)
        if self._on_screen:
            self._bars.update(
                self._tasks[title],
                completed=done,
                total=total,
                done=_done(done, total),
                counts=counts_text(counts),
            )
        elif self._in_pipe and self._clock.monotonic() - self._told_s[title] >= LINE_EVERY_S:
            self._told_s[title] = self._clock.monotonic()
            of = "" if total is None else f" of {total:,}"
            parts = [f"{title}: {done:,}{of}", counts_text(counts)]
            messages.print(" · ".join(part for part in parts if part), markup=False)


def _done(done: int, total: int | None) -> str:
    return f"{done:,}" if total is None else f"{done:,}/{total:,}"
