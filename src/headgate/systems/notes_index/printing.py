"""Prints runs and what was found on the command line: for people, and whole lines for pipes."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rich.table import Table
from rich.text import Text

from headgate import Mode
from headgate.systems.notes_index.run_view import Run, RunStatus, RunSummary
from headgate.systems.notes_index.search import NoteHit
from headgate.toolkit import Page, format_time
from headgate.toolkit.commands import amount, messages, out

_COLUMNS = ("run", "status", "mode", "user", "started (UTC)", "pages")
#: How narrow the last column may get.
_PAGES_WIDTH_MIN = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: The mark and colour of each status; the word and the mark make sense without the colour.
_MARKS = {
    RunStatus.IDLE: ("○", "cyan"),
    RunStatus.RUNNING: ("▶", "blue"),
    RunStatus.CANCELLING: ("◌", "magenta"),
    RunStatus.SUCCESS: ("✔", "green"),
    RunStatus.FAILED: ("✘", "red"),
    RunStatus.CANCELLED: ("⊘", "magenta"),
}
_UNFINISHED = (RunStatus.CANCELLED, RunStatus.FAILED)


def print_run(found: Run, whose: str) -> None:
    """Print a run, and what to do next; `whose` are the options that name its graph."""
    if found.run_id is None:
        messages.print(f"idle: no run was started yet; headgate notes start {whose}", markup=False)
        return
    dry = " · dry run" if found.params is not None and found.params.dry_run else ""
    mode = "" if found.mode is None else found.mode.value
    out.print(Text.assemble((found.run_id, "bold"), "  ", _status_text(found), f" · {mode}{dry}"))
    out.print(found.message, markup=False)
    if found.status is RunStatus.FAILED and found.error not in (None, found.message):
        out.print(f"error: {found.error}", markup=False)
    if found.finished_at is None and found.progress is not None:
        done = found.progress.processed
        out.print(f"{done.processed:,} of {amount(done.total, 'page', 'pages')}", markup=False)
    if found.summary is not None:
        out.print(summary_text(found), markup=False)
        if found.status is RunStatus.SUCCESS and found.summary.cursor_max_edit_time is not None:
            mark = _EPOCH + timedelta(milliseconds=found.summary.cursor_max_edit_time)
            out.print(f"what was edited up to {format_time(mark)} is indexed", markup=False)
    if hint := _next_step(found, whose):
        messages.print(f"next: headgate notes {hint}", markup=False)


def print_runs(page: Page[Run]) -> None:
    """Print a table of runs, each with its user; plain and untruncated when piped."""
    if not out.is_terminal:
        for each in page.data:
            times = (_iso(each.started_at), _iso(each.finished_at))
            fields = (each.run_id, each.status.value, each.mode, each.user_id, *times)
            result = "" if each.summary is None else summary_text(each)
            sys.stdout.write("\t".join([*(str(field or "") for field in fields), result]) + "\n")
    else:
        _print_table([_row(each) for each in page.data])
    if page.next_cursor is not None:
        messages.print(f"there are more: --before {page.next_cursor}", markup=False)


def print_hits(hits: Sequence[NoteHit]) -> None:
    """Print what was found, the best first; one line for each when piped."""
    for hit in hits:
        # A block may have several lines.
        title, snippet = (" ".join(text.split()) for text in (hit.page.title, hit.snippet))
        if out.is_terminal:
            score = (f"{hit.score:.2f}  ", "dim")
            out.print(Text.assemble(score, (title, "bold"), f"  {hit.block_uid}"))
            out.print(Text(f"      {snippet}"))
        else:
            fields = (f"{hit.score:.4f}", title, hit.page.uid, hit.block_uid, snippet)
            sys.stdout.write("\t".join(fields) + "\n")


def summary_text(found: Run) -> str:
    """Return what a run has done, in one line."""
    summary = found.summary
    assert summary is not None, "the pages have been listed"
    done = ", ".join(_counts(found, summary))
    return f"{amount(summary.total_pages, 'page', 'pages')} in the graph: {done}"


def _counts(found: Run, summary: RunSummary) -> list[str]:
    """What became of the pages: what a run is for, and what there is of the rest."""
    first = {"indexed": summary.updated}
    if (planned := _planned(found)) is not None:
        first = {"to read or remove": planned}
    rest = {
        "unchanged": summary.skipped_content,
        "not edited": summary.skipped_since,
        "removed": summary.removed,
        "failed": summary.failed,
        "left for the next run": _left(found, summary),
    }
    shown = {**first, **{name: count for name, count in rest.items() if count}}
    return [f"{count:,} {name}" for name, count in shown.items()]


def _left(found: Run, summary: RunSummary) -> int:
    """How many pages a limit has left out."""
    if found.mode is not Mode.LIMIT or found.status is not RunStatus.SUCCESS:
        return 0
    read = summary.processed + (_planned(found) or 0)
    return max(0, summary.total_pages - summary.skipped_since - read)


def _planned(found: Run) -> int | None:
    """How many pages a run would look at; None if it was not a dry run."""
    if found.params is None or not found.params.dry_run or found.progress is None:
        return None
    return found.progress.processed.total


def _next_step(found: Run, whose: str) -> str | None:
    if found.finished_at is None:
        return f"status {whose} --watch"
    if found.status in _UNFINISHED:
        # Without a list of pages there is nothing that a run could go on with.
        return f"{'start' if found.progress is None else 'resume'} {whose}"
    return None


def _status_text(found: Run) -> Text:
    mark, colour = _MARKS[found.status]
    return Text(f"{mark} {found.status.value}", style=colour)


def _row(found: Run) -> tuple[Text, ...]:
    return (
        Text(found.run_id or ""),
        _status_text(found),
        Text("" if found.mode is None else found.mode.value),
        Text(found.user_id or ""),
        Text("" if found.started_at is None else f"{found.started_at:%Y-%m-%d %H:%M}"),
        Text("" if found.summary is None else ", ".join(_counts(found, found.summary))),
    )


def _print_table(rows: Sequence[tuple[Text, ...]]) -> None:
    # Ids are copied from here, so a narrow terminal breaks lines rather than cut them.
    widths = [max(map(len, cells)) for cells in zip(map(Text, _COLUMNS), *rows, strict=True)]
    widths[-1] = min(widths[-1], _PAGES_WIDTH_MIN)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(_COLUMNS, widths, strict=True):
        table.add_column(column, min_width=width, overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table, width=max(out.width, sum(widths) + 2 * len(widths)), crop=False)


def _iso(at: datetime | None) -> str:
    return "" if at is None else at.isoformat()
