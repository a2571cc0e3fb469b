"""Prints for the command line: data on stdout, messages on stderr, JSON with `--json`."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from rich.console import Console, OverflowMethod
from rich.table import Table
from rich.text import Text

from headgate.base.encoding import to_json
from headgate.base.failure import Failure
from headgate.flow.jobs.view import JobView, OperatorView
from headgate.model.job import JobEvent
from headgate.model.states import JobState
from headgate.toolkit.commands.command_line import end_quietly
from headgate.toolkit.paging import Page, page_of

V = TypeVar("V")


class _Output(Console):
    """A console whose reader may have seen enough, such as `head`: that is no failure."""

    def on_broken_pipe(self) -> None:
        end_quietly()


# Piped output is never wrapped, so that each line stays one line.
out = _Output(highlight=False, soft_wrap=not sys.stdout.isatty())
messages = _Output(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def is_animated() -> bool:
    """Whether a person watches stderr as it changes: not a pipe, nor the log of a CI."""
    looks = messages.file.isatty() and not messages.is_dumb_terminal
    return looks and not os.environ.get("CI")


#: The last column of a table may be broken, down to this width.
LAST_WIDTH_MIN = 20

#: The mark and colour of each state; the word and the mark make sense without the colour.
_MARKS = {
    JobState.PENDING: ("○", "cyan"),
    JobState.RUNNING: ("▶", "blue"),
    JobState.PAUSED: ("‖", "yellow"),
    JobState.CANCELLING: ("◌", "magenta"),
    JobState.CANCELLED: ("⊘", "magenta"),
    JobState.SUCCESS: ("✔", "green"),
    JobState.FAILED: ("✘", "red"),
}


def print_json(value: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(to_json(value) + "\n")


def state_text(job: JobView) -> Text:
    """Return the state with its mark and colour."""
    mark, colour = _MARKS[job.state]
    return Text(f"{mark} {job.state.value}", style=colour)


def percent_text(job: JobView) -> str:
    """Return the progress in words."""
    if job.percent is not None:
        return f"{job.percent:g} %"
    return f"{job.progress.done:,} done" if job.progress.done else ""


def print_list(jobs: Sequence[JobView], *, limit: int, json: bool, none: str) -> None:
    """Print jobs as the API's page or as a table, or the message `none` if there are none.

    `jobs` holds one more than `limit` if there is another page.
    """
    page = jobs[:limit]
    if json:
        print_json(page_of(jobs, limit))
    elif page:
        columns = ("job", "state", "sync", "user", "lane", "progress", "message")
        print_table(columns, [_row(each) for each in page])
    else:
        messages.print(none)


def print_page(
    page: Page[V],
    columns: Sequence[str],
    row: Callable[[V], Sequence[str | Text]],
    *,
    json: bool,
    none: str,
) -> None:
    """Print a page as the API sends it or as a table, or the message `none` if it is empty."""
    if json:
        print_json(page)
    elif page.data:
        print_table(columns, [row(each) for each in page.data])
        if page.next_cursor is not None:
            messages.print(f"there are more: --after {page.next_cursor}", markup=False)
    else:
        messages.print(none)


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str | Text]], *, cut: bool = False
) -> None:
    """Print a table, or where it does not fit, the rows one after another.

    The last column is broken into lines, or with `cut`, cut off. In a pipe, each row is one
    untruncated line with tabs, and there is no header.
    """
    if not out.is_terminal:
        for row in rows:
            sys.stdout.write("\t".join(_plain(cell) for cell in row) + "\n")
        return
    if not _fits(header, rows):
        room = out.width - max(map(len, header)) - 2
        for row in rows:
            *cells, last = [Text(str(cell)) for cell in row]
            if cut:
                last.truncate(room, overflow="ellipsis")
            print_facts(
                [(name, str(cell)) for name, cell in zip(header, (*cells, last), strict=True)]
            )
            out.print()
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(header):
        is_last = number == len(header) - 1
        overflow: OverflowMethod = "ellipsis" if cut and is_last else "fold"
        table.add_column(column, no_wrap=cut or not is_last, overflow=overflow)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    if rows:
        out.print(table)


def _fits(header: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> bool:
    """Whether the terminal is wide enough for a table whose last column alone may be broken."""
    columns = zip(header, *rows, strict=True)
    widths = [max(len(cell) for cell in column) for column in columns]
    return sum(widths[:-1]) + len(widths) - 1 + min(widths[-1], LAST_WIDTH_MIN) <= out.width


def _plain(cell: str | Text) -> str:
    """The text of a cell without the mark of a state, which is only for the eye."""
    return cell if isinstance(cell, str) else cell.plain.partition(" ")[2] or cell.plain


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print what is known of something, one fact a line; those without a value are left out."""
    known = [(name, value) for name, value in facts if value]
    if not out.is_terminal:
        width = max((len(name) for name, _ in known), default=0)
        for name, value in known:
            sys.stdout.write(f"{name:<{width}}  {value}\n")
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in known:
        table.add_row(name, Text(value))
    out.print(table)


def _row(job: JobView) -> Sequence[str | Text]:
    fields = (job.sync, job.user_id, job.lane.value, percent_text(job), job.message)
    return (job.id, state_text(job), *fields)


def job_facts(job: JobView) -> list[tuple[str, str]]:
    """Return what is known of a job, with the names of the facts."""
    into = "" if job.destination is None else f" → {job.destination}"
    return [
        ("sync", f"{job.sync} ({job.source}{into})"),
        ("user", job.user_id),
        ("connection", job.connection_id),
        ("mode", job.mode.value),
        ("lane", job.lane.value),
        ("range", f"{job.start_date} to {job.end_date}" if job.start_date else ""),
        ("high water", "" if job.high_water is None else to_json(job.high_water)),
        ("counted", counts_text(_counted(job))),
        ("by the source", counts_text(job.source_counts)),
        *_operators_facts(job.operator),
        ("created", _time(job.created_at)),
        ("started", _time(job.started_at)),
        ("finished", _time(job.finished_at)),
    ]


def _counted(job: JobView) -> Mapping[str, int]:
    """What there is of each kind, in words."""
    counts: Mapping[str, int] = msgspec.to_builtins(job.counts)
    return {name.replace("_", " "): count for name, count in counts.items() if count}


def _operators_facts(view: OperatorView | None) -> list[tuple[str, str]]:
    if view is None:
        return []
    names = ("attempts", "deferrals", "crashes", "pauses")
    failures = {name: getattr(view, name) for name in names if getattr(view, name)}
    error = view.error or Failure()
    return [
        ("waits because", view.waits_for or ""),
        ("this chunk", counts_text(failures)),
        ("last error", ": ".join(part for part in (error.kind, error.message) if part)),
        ("caused by", error.cause or ""),
        ("raised at", error.raised_at or ""),
    ]


def counts_text(counts: Mapping[str, int]) -> str:
    """Return numbers with their names, in one line."""
    return " · ".join(f"{name} {count:,}" for name, count in counts.items())


def amount(count: int, one: str, many: str) -> str:
    """Return a number with the word for one or for many: "1 message", "2,000 messages"."""
    return f"{count:,} {one if count == 1 else many}"


def _time(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def print_events(events: Sequence[JobEvent]) -> None:
    """Print a job's events, one a line."""
    for event in events:
        line = f"{_time(event.at)}  {event.kind:<14} {to_json(event.data)}"
        out.print(line, markup=False)
