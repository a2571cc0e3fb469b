"""A chunk is checked whole before any of it is used; what is wrong is told by its field."""

import re
from datetime import timedelta
from typing import Any, cast

import pytest

from headgate.base.errors import InvalidInput, Malformed
from headgate.flow.step.check_chunk import (
    CHUNK_EVENTS_MAX,
    CHUNK_RECORDS_MAX,
    COUNT_MAX,
    COUNTS_MAX,
    EVENT_BYTES_MAX,
    HIGH_WATER_BYTES_MAX,
    NAME_LENGTH_MAX,
    ChunkLimits,
    check_chunk,
    with_late_events,
)
from headgate.model.job import END_OF_EVENTS, EventKind, Job, Summary
from headgate.model.record import ChunkEvent, Record
from headgate.ports.connector import Chunk, Refusal, WriteResult
from tests.unit.values import make_job

JOB = make_job(source="roam")


def problem(chunk: Chunk, job: Job = JOB) -> str:
    """Why the chunk is not taken."""
    with pytest.raises(Malformed) as caught:
        check_chunk(chunk, job)
    return str(caught.value)


def event(kind: object = "batch_complete", data: object = None) -> ChunkEvent:
    return ChunkEvent(cast(Any, kind), cast(Any, {} if data is None else data))


EVENTS_MAX = [ChunkEvent("batch_complete")] * CHUNK_EVENTS_MAX


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"removed": ["a", "b"]},
        # What is no JSON is left to the destination that takes it.
        {"records": [Record("k", {"a": object()})]},
        *(
            {"events": [ChunkEvent(kind)]}
            for kind in ("a", "batch_complete", "page2", "v2_page_3", "x" * 50)
        ),
        {"events": EVENTS_MAX},
        *({"counts": {"skipped_content": count}} for count in (0, 1, COUNT_MAX)),
        *(
            {"high_water": mark}
            for mark in (
                0,
                "2026-01-03T00:00:00Z",
                {"inbox": 7},
                "x" * (HIGH_WATER_BYTES_MAX - 2),
            )
        ),
    ],
)
def test_what_a_chunk_may_say_is_taken(fields: dict[str, Any]) -> None:
    check_chunk(Chunk(**fields), JOB)


@pytest.mark.parametrize(
    ("chunk", "said"),
    [
        ([], "source 'roam' returned list, not a Chunk"),
        (
            Chunk(removed=cast(Any, ["a", 7])),
            "removed: 7 is no key; write the keys of stored records",
        ),
        (
            Chunk(events=cast(Any, [("batch_complete", {})])),
            "events[0]: is a tuple; write a headgate.ChunkEvent",
        ),
        (Chunk(events=[*EVENTS_MAX, EVENTS_MAX[0]]), "events: there are 101; use at most 100"),
        *(
            (
                Chunk(counts=cast(Any, {"seen": 1, "skipped": count})),
                f"counts.skipped: write an int from 0 to 1,000,000,000, not {count!r}",
            )
            for count in (-1, COUNT_MAX + 1, 1.0, True, "1", None)
        ),
        *(
            (
                Chunk(delivered_before=cast(Any, count)),
                f"delivered_before: write an int from 0 to 1,000,000,000, not {count!r}",
            )
            for count in (-1, True, 1.0, "1", 1_000_000_001)
        ),
        *(
            (
                Chunk(counts=cast(Any, {name: 1})),
                "counts: write a name in lower snake case of at most 50 characters",
            )
            for name in ("Skipped", "skipped-content", "", "x" * 51, 7)
        ),
        (Chunk(wait=cast(Any, 30)), "wait: is a int; write a datetime.timedelta"),
        *(
            (Chunk(wait=wait), "wait: write one from 0 to")
            for wait in (timedelta(seconds=-1), timedelta.max)
        ),
        (Chunk(cursor=1, error=cast(Any, "boom")), "error: "),
        (Chunk(high_water=object()), "high_water: cannot be written as JSON: "),
        (Chunk(high_water="a\x00"), "high_water: must not contain the character NUL"),
        (
            Chunk(high_water="x" * HIGH_WATER_BYTES_MAX),
            "high_water: is 8,194 bytes of JSON; at most 8,192 are allowed",
        ),
    ],
)
def test_what_a_chunk_may_not_say_is_refused_by_its_field(chunk: Chunk, said: str) -> None:
    assert problem(chunk).startswith(said)


def test_records_up_to_the_limit_are_taken_and_no_more() -> None:
    most = [Record(str(number), {}) for number in range(CHUNK_RECORDS_MAX)]

    check_chunk(Chunk(records=most[1:], kept=most[:1]), JOB)

    assert "gave 10,001 records" in problem(Chunk(records=most, kept=most[:1]))
    assert "gave 10,001 records" in problem(Chunk(records=most, removed=["a"]))


def test_a_record_and_a_chunk_have_a_largest_size_in_bytes() -> None:
    # {"a":"…"}: eight bytes and the text.
    limits = ChunkLimits(record_bytes_max=100, chunk_bytes_max=250)
    large, larger = (Record("k", {"a": "x" * length}) for length in (92, 93))

    check_chunk(Chunk(records=[large], kept=[large]), JOB, limits)

    told = "source 'roam' gave a record of 101 bytes, 'k'; at most 100 (HEADGATE_RECORD_BYTES_MAX)"
    for chunk in (Chunk(records=[larger]), Chunk(kept=[larger])):
        with pytest.raises(Malformed, match=re.escape(told)):
            check_chunk(chunk, JOB, limits)
    with pytest.raises(Malformed, match=r"a chunk of 300 bytes; at most 250 .*: read less at once"):
        check_chunk(Chunk(records=[large, large], kept=[large]), JOB, limits)


@pytest.mark.parametrize("field", ["record_bytes_max", "chunk_bytes_max"])
def test_limits_under_which_nothing_could_be_stored_are_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: must be at least 1"):
        ChunkLimits(**{field: 0})


# Events.


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "Batch",
        "batchComplete",
        "batch-complete",
        "batch complete",
        "_batch",
        "batch_",
        "batch__complete",
        "2_pages",
        "größe",
        "batch\n",
        "x" * (NAME_LENGTH_MAX + 1),
        None,
        7,
    ],
)
def test_another_name_is_refused_with_how_to_write_one(kind: object) -> None:
    said = problem(Chunk(events=[event(), event(kind)]))

    assert said.startswith(
        "events[1].kind: write a name in lower snake case of at most 50 characters"
    )
    assert said.endswith(f"not {kind!r}")


@pytest.mark.parametrize("kind", [*EventKind, END_OF_EVENTS])
def test_a_source_does_not_tell_one_of_the_engine_s_own_kinds(kind: str) -> None:
    for given in (kind, str(kind)):
        said = problem(Chunk(events=[event(given)]))

        assert said.startswith("events[0].kind: ")
        assert said.endswith(f"is the engine's own; choose another name, such as source_{kind}")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([1], "is a list; write a dict"),
        ("pages", "is a str; write a dict"),
        ({"at": object()}, "cannot be written as JSON: "),
        ({"note": "a\x00b"}, "must not contain the character NUL"),
        ({"note": "x" * EVENT_BYTES_MAX}, "is 8,203 bytes of JSON; at most 8,192 are allowed"),
    ],
)
def test_an_event_s_data_is_a_small_json_object(data: object, said: str) -> None:
    assert problem(Chunk(events=[event(data=data)])).startswith(f"events[0].data: {said}")


def test_a_job_counts_so_many_things_and_no_more() -> None:
    # Given a job that has counted as much as may be, but for one
    before = {f"name_{number}": 1 for number in range(COUNTS_MAX - 1)}
    job = make_job(summary=Summary(counts=before))

    # Then one more name may come, and the known ones again, but not two more
    check_chunk(Chunk(counts={**before, "one": 1}), job)
    said = problem(Chunk(counts={"one": 1, "two": 1}), job)
    assert said == "counts: the job would have 51 names; use at most 50"


# What depends on the destination.


def test_events_may_depend_on_what_the_destination_took() -> None:
    def told(written: WriteResult) -> list[ChunkEvent]:
        return [ChunkEvent("batch_complete", {"refused": len(written.refused)})]

    chunk = Chunk(events=[ChunkEvent("batch_read")], events_after_write=told)

    refused = with_late_events(chunk, WriteResult(refused=[Refusal("a", "too long")]))
    assert refused.events == [
        ChunkEvent("batch_read"),
        ChunkEvent("batch_complete", {"refused": 1}),
    ]
    # Without a destination nothing was refused; and they are checked as all others are.
    assert with_late_events(chunk, None).events[1].data == {"refused": 0}
    wrong = Chunk(events_after_write=lambda written: [ChunkEvent("Wrong Name")])
    with pytest.raises(Malformed, match="kind"):
        with_late_events(wrong, None)
    plain = Chunk()
    assert with_late_events(plain, None) is plain
