"""Checking a chunk before any of it is used. One that cannot be stored is Malformed.

The error names the field and says what to write instead: whoever reads it wrote the source.
"""

import re
from collections.abc import Mapping, Sequence

from headgate.base.encoding import json_problem
from headgate.base.errors import Malformed
from headgate.model.job import EventKind
from headgate.model.record import ChunkEvent
from headgate.ports.connector import Chunk

#: More than this in one chunk would make its transaction long; a source should page.
CHUNK_RECORDS_MAX = 10_000
CHUNK_EVENTS_MAX = 100
EVENT_BYTES_MAX = 8 * 1024
#: Of an event's kind.
NAME_LENGTH_MAX = 50

_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def check_chunk(chunk: Chunk, source: str) -> None:
    """Raise Malformed where the chunk that `source` gave cannot be taken."""
    if not isinstance(chunk, Chunk):
        raise Malformed(f"source {source!r} returned {type(chunk).__name__}, not a Chunk")
    count = len(chunk.records) + len(chunk.kept)
    if count > CHUNK_RECORDS_MAX:
        raise Malformed(
            f"source {source!r} gave {count:,} records in one chunk; at most {CHUNK_RECORDS_MAX:,}"
        )
    _check_events(chunk.events)


def _check_events(events: Sequence[ChunkEvent]) -> None:
    if len(events) > CHUNK_EVENTS_MAX:
        raise Malformed(
            f"events: there are {len(events):,}; put them into at most {CHUNK_EVENTS_MAX}"
        )
    for place, event in enumerate(events):
        field = f"events[{place}]"
        if not isinstance(event, ChunkEvent):
            raise Malformed(f"{field}: is a {type(event).__name__}; write a headgate.ChunkEvent")
        _check_name(f"{field}.kind", event.kind)
        if event.kind in list(EventKind):
            raise Malformed(
                f"{field}.kind: {event.kind!r} is the engine's own; choose another name, "
                f"such as source_{event.kind}"
            )
        if not isinstance(event.data, Mapping):
            raise Malformed(f"{field}.data: is a {type(event.data).__name__}; write a dict")
        _check_json(f"{field}.data", event.data, bytes_max=EVENT_BYTES_MAX)


def _check_name(field: str, name: object) -> None:
    if not isinstance(name, str) or not _SNAKE_CASE.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        raise Malformed(
            f"{field}: write lower snake case of at most {NAME_LENGTH_MAX} characters, "
            f"such as batch_complete, not {name!r}"
        )


def _check_json(field: str, value: object, *, bytes_max: int) -> None:
    problem = json_problem(value, bytes_max=bytes_max)
    if problem is not None:
        raise Malformed(f"{field}: {problem}")
