"""How the command line speaks: data on stdout, messages on stderr, JSON for whoever asks."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headgate.base.encoding import from_json, to_json
from headgate.model.job import Job, JobEvent
from headgate.model.states import JobState

# Piped text is never wrapped: a line stays a line.
out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
messages = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())

#: Not colour alone: every state has its word, and a mark that reads without colour.
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
    """One JSON document on stdout."""
    sys.stdout.write(to_json(value) + "\n")


def state_text(job: Job) -> Text:
    """The state with its mark and colour."""
    mark, colour = _MARKS[job.state]
    return Text(f"{mark} {job.state.value}", style=colour)


def job_json(job: Job, sentence: str) -> dict[str, Any]:
    """A job as the API tells it: explicit fields, with percent and explanation."""
    told = from_json(msgspec.json.encode(job))
    assert isinstance(told, dict)
    told["percent"] = job.progress.percent
    told["explanation"] = sentence
    return told


def percent_text(job: Job) -> str:
    """How far along, in words."""
    percent = job.progress.percent
    if percent is not None:
        return f"{percent:g} %"
    return f"{job.progress.done:,} done" if job.progress.done else ""


def print_jobs(jobs: Sequence[Job], sentences: Sequence[str]) -> None:
    """A table of jobs; plain and untruncated when piped."""
    if not out.is_terminal:
        for job, sentence in zip(jobs, sentences, strict=True):
            fields = (job.id, job.state.value, job.sync, job.user_id, job.lane.value)
            sys.stdout.write("\t".join((*fields, percent_text(job), sentence)) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("job", "state", "sync", "user", "lane", "progress", "why"):
        table.add_column(column, no_wrap=column != "why", overflow="fold")
    for job, sentence in zip(jobs, sentences, strict=True):
        table.add_row(
            job.id,
            state_text(job),
            job.sync,
            job.user_id,
            job.lane.value,
            percent_text(job),
            sentence,
        )
    out.print(table)


def print_job(job: Job, sentence: str) -> None:
    """One job, whole."""
    out.print(Text.assemble((job.id, "bold"), "  ", state_text(job)))
    out.print(sentence, markup=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in _facts(job):
        table.add_row(name, Text(value))
    out.print(table)


def _facts(job: Job) -> list[tuple[str, str]]:
    summary = msgspec.to_builtins(job.summary)
    source_counts = summary.pop("counts", {})
    facts = [
        ("sync", f"{job.sync} ({job.source})"),
        ("user", job.user_id),
        ("connection", job.connection_id),
        ("mode", job.mode.value),
        ("lane", job.lane.value),
        ("range", f"{job.start_date} to {job.end_date}" if job.start_date else ""),
        ("progress", percent_text(job)),
        ("high water", "" if job.high_water is None else to_json(job.high_water)),
        ("counted", counts_text(summary)),
        ("by the source", counts_text(source_counts)),
        ("this chunk", _chunk_counters(job)),
        ("last error", job.error or ""),
        ("created", _time(job.created_at)),
        ("started", _time(job.started_at)),
        ("finished", _time(job.finished_at)),
    ]
    return [(name, value) for name, value in facts if value]


def counts_text(counts: Mapping[str, int]) -> str:
    """Numbers with their names, in a line."""
    return " · ".join(f"{name} {count:,}" for name, count in counts.items())


def _chunk_counters(job: Job) -> str:
    counters = {
        "attempts": job.attempts,
        "errors in the window": len(job.recent_errors),
        "deferrals": job.deferrals,
        "crashes": job.crashes,
        "pauses": job.pauses,
    }
    return counts_text({name: count for name, count in counters.items() if count})


def _time(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def print_events(events: Sequence[JobEvent]) -> None:
    """A job's story, a line an event."""
    for event in events:
        line = f"{_time(event.at)}  {event.kind:<14} {to_json(event.data)}"
        out.print(line, markup=False)
