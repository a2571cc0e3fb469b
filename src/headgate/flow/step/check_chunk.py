"""Validation of a chunk before any of it is used; a chunk that cannot be stored is Malformed.

The error names the field and what to write instead, because its reader wrote the source.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from headgate.base.encoding import json_problem, json_size
from headgate.base.errors import InvalidInput, Malformed
from headgate.model.job import END_OF_EVENTS, EventKind, Job
from headgate.model.record import ChunkEvent
from headgate.ports.connector import Chunk, WriteResult

#: More records in one chunk would make its transaction long; a source should page.
CHUNK_RECORDS_MAX = 10_000
CHUNK_EVENTS_MAX = 100
WAIT_MAX = timedelta(days=366)
EVENT_BYTES_MAX = 8 * 1024
HIGH_WATER_BYTES_MAX = 8 * 1024
#: The most names that a source counts in a job's life, and the highest count in one chunk.
COUNTS_MAX = 50
COUNT_MAX = 1_000_000_000
#: The longest name of an event's kind or of a count.
NAME_LENGTH_MAX = 50

#: Names that mean something else to whoever follows a job's events.
_TAKEN_KINDS = frozenset({*EventKind, END_OF_EVENTS})
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class ChunkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The most bytes of JSON that a worker accepts: a chunk is in memory as a whole."""

    #: No less than a provider's largest answer, which a record may be made of.
    record_bytes_max: int = 16 * 1024 * 1024
    chunk_bytes_max: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Refuse limits under which no record could be stored."""
        for name in ("record_bytes_max", "chunk_bytes_max"):
            if getattr(self, name) < 1:
                raise InvalidInput(name, "must be at least 1")


DEFAULT_LIMITS = ChunkLimits()


def check_chunk(chunk: Chunk, job: Job, limits: ChunkLimits = DEFAULT_LIMITS) -> None:
    """Raise Malformed if the next chunk of `job` is not valid."""
    if not isinstance(chunk, Chunk):
        raise Malformed(f"source {job.source!r} returned {type(chunk).__name__}, not a Chunk")
    count = len(chunk.records) + len(chunk.kept) + len(chunk.removed)
    if count > CHUNK_RECORDS_MAX:
        raise Malformed(
            f"source {job.source!r} gave {count:,} records in one chunk; "
            f"at most {CHUNK_RECORDS_MAX:,}"
        )
    _check_bytes(chunk, job, limits)
    for key in chunk.removed:
        if not isinstance(key, str):
            raise Malformed(f"removed: {key!r} is no key; write the keys of stored records")
    _check_count("delivered_before", chunk.delivered_before)
    _check_wait(chunk.wait)
    if chunk.error is not None and not isinstance(chunk.error, Exception):
        raise Malformed(
            f"error: is a {type(chunk.error).__name__}; write an exception, such as Transient()"
        )
    _check_events(chunk.events)
    _check_counts(chunk.counts, job.summary.counts)
    _check_json("high_water", chunk.high_water, bytes_max=HIGH_WATER_BYTES_MAX)


def _check_bytes(chunk: Chunk, job: Job, limits: ChunkLimits) -> None:
    total = 0
    for record in (*chunk.records, *chunk.kept):
        # What is no JSON has no size here; where it is stored, the store says what is wrong.
        size = json_size(record.data)
        total += size
        if size > limits.record_bytes_max:
            key = str(record.key)[:80]
            raise Malformed(
                f"source {job.source!r} gave a record of {size:,} bytes, {key!r}; at most "
                f"{limits.record_bytes_max:,} (HEADGATE_RECORD_BYTES_MAX)"
            )
    if total > limits.chunk_bytes_max:
        raise Malformed(
            f"source {job.source!r} gave a chunk of {total:,} bytes; at most "
            f"{limits.chunk_bytes_max:,} (HEADGATE_CHUNK_BYTES_MAX): read less at once"
        )


def _check_wait(wait: timedelta | None) -> None:
    if wait is None:
        return
    if not isinstance(wait, timedelta):
        raise Malformed(f"wait: is a {type(wait).__name__}; write a datetime.timedelta")
    if not timedelta(0) <= wait <= WAIT_MAX:
        raise Malformed(f"wait: write one from 0 to {WAIT_MAX.days} days, not {wait}")


def with_late_events(chunk: Chunk, written: WriteResult | None) -> Chunk:
    """The chunk with the events that depend on what the destination has taken, if it has such."""
    if chunk.events_after_write is None:
        return chunk
    events = [*chunk.events, *chunk.events_after_write(written or WriteResult())]
    _check_events(events)
    return replace(chunk, events=events, events_after_write=None)


def _check_events(events: Sequence[ChunkEvent]) -> None:
    if len(events) > CHUNK_EVENTS_MAX:
        raise Malformed(f"events: there are {len(events):,}; use at most {CHUNK_EVENTS_MAX}")
    for place, event in enumerate(events):
        field = f"events[{place}]"
        if not isinstance(event, ChunkEvent):
            raise Malformed(f"{field}: is a {type(event).__name__}; write a headgate.ChunkEvent")
        _check_name(f"{field}.kind", event.kind)
        if event.kind in _TAKEN_KINDS:
            raise Malformed(
                f"{field}.kind: {event.kind!r} is the engine's own; choose another name, "
                f"such as source_{event.kind}"
            )
        if not isinstance(event.data, Mapping):
            raise Malformed(f"{field}.data: is a {type(event.data).__name__}; write a dict")
        _check_json(f"{field}.data", event.data, bytes_max=EVENT_BYTES_MAX)


def _check_counts(counts: Mapping[str, int], before: Mapping[str, int]) -> None:
    for name, count in counts.items():
        _check_name("counts", name)
        _check_count(f"counts.{name}", count)
    names = len(before.keys() | counts.keys())
    if names > COUNTS_MAX:
        raise Malformed(f"counts: the job would have {names} names; use at most {COUNTS_MAX}")


def _check_count(field: str, count: int) -> None:
    # `type`, because a bool is an int too.
    if type(count) is not int or not 0 <= count <= COUNT_MAX:
        raise Malformed(f"{field}: write an int from 0 to {COUNT_MAX:,}, not {count!r}")


def _check_name(field: str, name: object) -> None:
    if not isinstance(name, str) or not _SNAKE_CASE.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        raise Malformed(
            f"{field}: write a name in lower snake case of at most {NAME_LENGTH_MAX} characters, "
            f"such as batch_complete, not {name!r}"
        )


def _check_json(field: str, value: object, *, bytes_max: int) -> None:
    problem = json_problem(value, bytes_max=bytes_max)
    if problem is not None:
        raise Malformed(f"{field}: {problem}")
