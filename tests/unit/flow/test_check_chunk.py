"""A chunk is checked whole before any of it is used; what is wrong is told by its field."""

import re
from typing import Any, cast

import pytest

from headgate.base.errors import InvalidInput, Malformed
from headgate.flow.check_chunk import (
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


def test_a_chunk_that_says_nothing_is_taken() -> None:
    check_chunk(Chunk(), JOB)


def test_something_else_is_not_taken_for_a_chunk() -> None:
    assert problem(cast(Any, [])) == "source 'roam' returned list, not a Chunk"


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


def test_what_is_no_json_is_left_to_the_destination_that_takes_it() -> None:
    check_chunk(Chunk(records=[Record("k", {"a": object()})]), JOB)


@pytest.mark.parametrize("field", ["record_bytes_max", "chunk_bytes_max"])
def test_limits_under_which_nothing_could_be_stored_are_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: must be at least 1"):
        ChunkLimits(**{field: 0})


def test_what_is_gone_is_named_by_its_keys() -> None:
    check_chunk(Chunk(removed=["a", "b"]), JOB)

    wrong = Chunk(removed=cast(Any, ["a", 7]))
    assert problem(wrong) == "removed: 7 is no key; write the keys of stored records"


# Events.


@pytest.mark.parametrize("kind", ["a", "batch_complete", "page2", "v2_page_3", "x" * 50])
def test_an_event_is_named_in_lower_snake_case(kind: str) -> None:
    check_chunk(Chunk(events=[event(kind)]), JOB)


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


def test_so_many_events_are_taken_and_no_more() -> None:
    most = [event()] * CHUNK_EVENTS_MAX

    check_chunk(Chunk(events=most), JOB)

    assert problem(Chunk(events=[*most, event()])) == ("events: there are 101; use at most 100")


def test_an_event_has_a_type() -> None:
    said = problem(Chunk(events=cast(Any, [("batch_complete", {})])))

    assert said == "events[0]: is a tuple; write a headgate.ChunkEvent"


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


# Counts.


@pytest.mark.parametrize("count", [0, 1, COUNT_MAX])
def test_what_a_source_counts_is_a_number_of_things(count: int) -> None:
    check_chunk(Chunk(counts={"skipped_content": count}), JOB)


@pytest.mark.parametrize("count", [-1, COUNT_MAX + 1, 1.0, True, "1", None])
def test_another_count_is_refused_by_its_name(count: object) -> None:
    said = problem(Chunk(counts=cast(Any, {"seen": 1, "skipped": count})))

    assert said == f"counts.skipped: write an int from 0 to 1,000,000,000, not {count!r}"


@pytest.mark.parametrize("name", ["Skipped", "skipped-content", "", "x" * 51, 7])
def test_what_is_counted_is_named_in_lower_snake_case(name: object) -> None:
    said = problem(Chunk(counts=cast(Any, {name: 1})))

    assert said.startswith("counts: write a name in lower snake case of at most 50 characters")
    assert said.endswith(f"not {name!r}")


@pytest.mark.parametrize("count", [-1, True, 1.0, "1", 1_000_000_001])
def test_what_was_delivered_before_is_a_number_of_records(count: object) -> None:
    said = problem(Chunk(delivered_before=cast(Any, count)))

    assert said == f"delivered_before: write an int from 0 to 1,000,000,000, not {count!r}"


def test_a_job_counts_so_many_things_and_no_more() -> None:
    # Given a job that has counted as much as may be, but for one
    before = {f"name_{number}": 1 for number in range(COUNTS_MAX - 1)}
    job = make_job(summary=Summary(counts=before))

    # Then one more name may come, and the known ones again, but not two more
    check_chunk(Chunk(counts={**before, "one": 1}), job)
    said = problem(Chunk(counts={"one": 1, "two": 1}), job)
    assert said == "counts: the job would have 51 names; use at most 50"


# The high-water mark.


@pytest.mark.parametrize(
    "mark", [0, "2026-01-03T00:00:00Z", {"inbox": 7}, "x" * (HIGH_WATER_BYTES_MAX - 2)]
)
def test_a_mark_is_any_small_json_value(mark: object) -> None:
    check_chunk(Chunk(high_water=mark), JOB)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (object(), "cannot be written as JSON: "),
        ("a\x00", "must not contain the character NUL"),
        ("x" * HIGH_WATER_BYTES_MAX, "is 8,194 bytes of JSON; at most 8,192 are allowed"),
    ],
)
def test_what_is_no_mark_is_refused(mark: object, said: str) -> None:
    assert problem(Chunk(high_water=mark)).startswith(f"high_water: {said}")


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
