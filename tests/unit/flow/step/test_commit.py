"""What a chunk makes of its job, and what is stored with it."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.flow.step.commit import (
    REFUSED_LENGTH_MAX,
    commit_chunk,
    give_up_day,
    succeed_without_work,
)
from headgate.model.job import Job, JobParams, Mode, Progress, Reason, Summary
from headgate.model.record import ChunkEvent, Coverage, Record, RecordCounts
from headgate.model.states import DayStatus, JobEdge, JobState
from headgate.ports.connector import Chunk, Refusal, WriteResult
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.records.table import TableBatch
from tests.unit.values import make_job

RECORDS = (Record("a", {"n": 1}), Record("b", {"n": 2}))
FIRST, LAST = date(2026, 1, 1), date(2026, 1, 3)
HELD = Coverage(day=LAST, status=DayStatus.HELD, records=2)


def paging(**fields: object) -> Job:
    """A job that reads page by page."""
    return make_job(state=JobState.RUNNING, **fields)


def history(day: str, **fields: object) -> Job:
    """A job that reads the three days of the new year, now at `day`."""
    return paging(mode=Mode.HISTORY, start_date=FIRST, end_date=LAST, cursor=day, **fields)


# Page by page.


def test_a_page_with_more_to_come_moves_the_cursor_and_keeps_the_claim() -> None:
    chunk = Chunk(records=RECORDS, cursor={"page": 2})

    made, work = commit_chunk(paging(), chunk, slice_over=False)

    assert made.edge.name is JobEdge.ADVANCE
    assert (made.after.cursor, made.after.steps) == ({"page": 2}, 1)
    assert made.after.summary == Summary(chunks=1, records=2)
    assert made.data == {"records": 2}
    assert work == ChunkWork(records=RECORDS, coverage=None)


class OwnTable:
    def store(self, tx: object, batch: TableBatch) -> RecordCounts:
        raise AssertionError("nothing is stored to build a change")


TABLE = OwnTable()
KEPT = (Record("k", {}),)


def test_a_system_s_own_table_gets_the_records_and_not_what_is_kept() -> None:
    chunk = Chunk(records=RECORDS, kept=KEPT, cursor={"page": 2})

    made, work = commit_chunk(paging(), chunk, slice_over=False, table=TABLE)

    assert made.after.summary == Summary(chunks=1, records=2)
    assert work == ChunkWork(records=KEPT, table=TABLE, table_records=RECORDS)


def test_a_day_that_was_cut_short_leaves_its_part_in_the_system_s_own_table() -> None:
    chunk = Chunk(records=RECORDS, error=TimeoutError())

    made, work = commit_chunk(history("2026-01-03"), chunk, slice_over=False, table=TABLE)

    assert made.after.cursor == "2026-01-03"
    assert work == ChunkWork(table=TABLE, table_records=RECORDS)


def test_at_the_end_of_its_slice_a_job_goes_back_in_line() -> None:
    made, _ = commit_chunk(paging(), Chunk(cursor="p2"), slice_over=True)

    assert made.edge.name is JobEdge.REST
    assert made.after.state is JobState.PENDING


@pytest.mark.parametrize("slice_over", [False, True])
def test_the_last_page_ends_the_job_and_keeps_the_cursor_for_the_next_run(slice_over: bool) -> None:
    job = paging(cursor="p1", summary=Summary(chunks=1, records=5))

    made, work = commit_chunk(job, Chunk(records=RECORDS), slice_over=slice_over)

    assert (made.after.state, made.after.reason) == (JobState.SUCCESS, Reason.DONE)
    assert made.after.cursor == "p1"
    assert made.after.summary == Summary(chunks=2, records=7)
    assert work.records == RECORDS


def test_what_the_source_tells_is_stored_with_the_chunk() -> None:
    told = [ChunkEvent("batch_complete", {"pages": 20})]

    _, work = commit_chunk(
        paging(), Chunk(events=told, cursor="p2"), WriteResult(), slice_over=False
    )

    assert work == ChunkWork(records=(), coverage=None, events=told)


def test_what_the_source_counts_is_added_to_what_it_counted_before() -> None:
    job = paging(summary=Summary(chunks=1, counts={"seen": 5, "skipped": 2}))
    chunk = Chunk(counts={"skipped": 3, "renamed": 0}, cursor="p2")

    made, _ = commit_chunk(job, chunk, slice_over=False)

    assert made.after.summary.counts == {"seen": 5, "skipped": 5, "renamed": 0}
    assert job.summary.counts == {"seen": 5, "skipped": 2}


# The high-water mark.


@pytest.mark.parametrize("mark", ["2026-01-03T00:00:00Z", 1767398400000, 0, "", [3, "c"]])
def test_a_mark_that_the_source_names_is_the_job_s(mark: object) -> None:
    made, _ = commit_chunk(
        paging(high_water="old"), Chunk(high_water=mark, cursor="p2"), slice_over=True
    )

    assert made.after.high_water == mark


@pytest.mark.parametrize("cursor", ["p2", None])
def test_a_chunk_without_a_mark_leaves_it_where_it_was(cursor: str | None) -> None:
    made, _ = commit_chunk(paging(high_water=7), Chunk(cursor=cursor), slice_over=False)

    assert made.after.high_water == 7


@pytest.mark.parametrize("before", [None, 7])
def test_a_refused_record_stops_the_mark_before_its_chunk(before: object) -> None:
    # Given a chunk of which a record is refused
    chunk = Chunk(records=RECORDS, high_water=8, cursor="p2")
    refused = WriteResult(refused=[Refusal("a", "too long")])
    made, _ = commit_chunk(paging(high_water=before), chunk, refused, slice_over=False)
    assert made.after.high_water == before

    # When the next ones are taken whole
    made, _ = commit_chunk(made.after, Chunk(high_water=9), WriteResult(), slice_over=False)

    # Then the mark still stands where it stood
    assert made.after.state is JobState.SUCCESS
    assert made.after.high_water == before


def test_a_day_given_up_stops_the_mark() -> None:
    # Given a job whose second day is given up
    job = history("2026-01-03")
    read, _ = commit_chunk(job, Chunk(high_water="third"), slice_over=False)
    gap, _ = give_up_day(read.after, "Transient: x")
    assert gap.after.high_water == "third"

    # When the last day is read
    made, _ = commit_chunk(gap.after, Chunk(high_water="first"), slice_over=False)

    # Then the mark has not moved past the gap
    assert (made.after.state, made.after.high_water) == (JobState.SUCCESS, "third")


@pytest.mark.parametrize("cursor", [0, "", False, [], {}])
def test_an_empty_cursor_is_still_a_cursor(cursor: object) -> None:
    made, _ = commit_chunk(paging(), Chunk(cursor=cursor), slice_over=False)

    assert made.after.state is JobState.RUNNING
    assert made.after.cursor == cursor


def test_records_that_went_to_a_destination_are_counted_but_not_stored() -> None:
    chunk = Chunk(records=RECORDS, cursor="p2")

    made, work = commit_chunk(paging(), chunk, WriteResult(), slice_over=False)

    assert work.records == ()
    assert made.after.summary == Summary(chunks=1, records=2, delivered=2)
    # A day is covered also where its records went elsewhere.
    _, work = commit_chunk(history("2026-01-03"), chunk, WriteResult(), slice_over=False)
    assert (work.records, work.coverage) == ((), HELD)


def test_receipts_and_what_is_to_be_kept_are_stored_where_there_is_a_destination() -> None:
    receipt, kept = Record("a", {"there": 1}), Record("day", {"steps": 2})
    chunk = Chunk(records=RECORDS, kept=[kept], cursor="p2")

    _, work = commit_chunk(paging(), chunk, WriteResult(receipts=[receipt]), slice_over=False)

    assert work.records == (receipt, kept)


def test_records_that_were_delivered_before_are_found_but_not_delivered() -> None:
    chunk = Chunk(records=[Record("a", {})], delivered_before=2)

    made, work = commit_chunk(history("2026-01-03"), chunk, WriteResult(), slice_over=False)

    summary = made.after.summary
    assert (summary.records, summary.delivered, summary.delivered_before) == (3, 1, 2)
    assert made.data["records"] == 3
    assert work.coverage is not None
    assert (work.coverage.status, work.coverage.records) == (DayStatus.HELD, 3)


def test_what_a_destination_refused_is_counted_and_told_with_its_day() -> None:
    refused = [Refusal("a", "the file is empty"), Refusal("b", "too long: " + 600 * "x")]

    made, work = commit_chunk(
        history("2026-01-03"),
        Chunk(records=RECORDS),
        WriteResult(refused=refused),
        slice_over=False,
    )

    assert (made.after.summary.delivered, made.after.summary.refused) == (0, 2)
    assert made.data["refused"] == 2
    assert work.coverage is not None and work.coverage.error is not None
    assert work.coverage.status is DayStatus.HELD
    assert work.coverage.error.startswith("the file is empty; too long: x")
    assert len(work.coverage.error) == REFUSED_LENGTH_MAX


def test_a_day_that_only_has_something_to_keep_is_held() -> None:
    chunk = Chunk(kept=[Record("day", {"steps": 2})])

    made, work = commit_chunk(history("2026-01-03"), chunk, WriteResult(), slice_over=False)

    assert made.after.summary.days_held == 1
    assert work.coverage is not None
    assert (work.coverage.status, work.coverage.records) == (DayStatus.HELD, 1)


def test_a_plan_leads_over_the_days_that_are_held() -> None:
    plan = ((LAST, LAST), (FIRST, FIRST))
    job = history("2026-01-03", params=JobParams(plan=plan))

    made, _ = commit_chunk(job, Chunk(records=RECORDS), slice_over=False)

    assert made.after.cursor == "2026-01-01"
    assert made.after.progress == Progress(done=1, total=2, at="2026-01-01")


def test_a_job_with_nothing_to_read_is_done() -> None:
    job = replace(history("2026-01-03", params=JobParams(plan=())), cursor=None)

    made = succeed_without_work(job)

    assert made.after.state is JobState.SUCCESS
    assert made.after.progress == Progress(done=0, total=0)


@pytest.mark.parametrize("told", [None, Progress(done=3, total=9, at="page 3")])
def test_without_word_from_the_source_progress_counts_records(told: Progress | None) -> None:
    chunk = Chunk(records=RECORDS, cursor="x", progress=told)

    made, _ = commit_chunk(paging(summary=Summary(records=40)), chunk, slice_over=True)

    assert made.after.progress == (told or Progress(done=42))


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (Progress(done=3, total=9, at="page 3"), Progress(done=9, total=9)),
        (Progress(done=12, total=9), Progress(done=12, total=9)),
        (Progress(done=3, at="page 3"), Progress(done=3)),
        (None, Progress(done=2)),
    ],
)
def test_a_finished_job_shows_its_work_as_complete(told: Progress | None, shown: Progress) -> None:
    chunk = Chunk(records=RECORDS, progress=told)

    made, _ = commit_chunk(paging(), chunk, slice_over=False)

    assert made.after.progress == shown
    assert made.after.progress.percent in (None, 100.0)


# Day by day.


def test_a_day_with_records_is_held_and_the_day_before_comes_next() -> None:
    job = history("2026-01-03")

    made, work = commit_chunk(job, Chunk(records=RECORDS), slice_over=False)

    assert made.edge.name is JobEdge.ADVANCE
    assert made.after.cursor == "2026-01-02"
    assert made.after.progress == Progress(done=1, total=3, at="2026-01-02")
    assert made.after.summary == Summary(chunks=1, records=2, days_held=1)
    assert made.data == {"records": 2, "day": "2026-01-03"}
    assert work.coverage == HELD


def test_a_day_without_records_is_empty_not_missing() -> None:
    made, work = commit_chunk(history("2026-01-03"), Chunk(), slice_over=False)

    assert made.after.summary == Summary(chunks=1, days_empty=1)
    assert work.coverage == Coverage(day=LAST, status=DayStatus.EMPTY, records=0)


def test_the_first_day_ends_the_job_and_stays_its_cursor() -> None:
    made, _ = commit_chunk(history("2026-01-01"), Chunk(), slice_over=False)

    assert made.after.state is JobState.SUCCESS
    assert made.after.cursor == "2026-01-01"
    assert made.after.progress == Progress(done=3, total=3)


def test_history_takes_neither_cursor_nor_progress_from_the_source() -> None:
    chunk = Chunk(cursor="elsewhere", progress=Progress(done=99, total=99))

    made, _ = commit_chunk(history("2026-01-03"), chunk, slice_over=False)

    assert made.after.cursor == "2026-01-02"
    assert made.after.progress.done == 1


def test_a_day_given_up_becomes_a_gap_and_the_job_goes_on() -> None:
    job = history("2026-01-03", pauses=3, summary=Summary(errors=4))

    made, work = give_up_day(job, "Transient: x")

    assert (made.after.state, made.event) == (JobState.PENDING, "day_failed")
    assert made.after.cursor == "2026-01-02"
    assert made.after.progress.done == 1
    assert made.after.summary == Summary(errors=5, days_failed=1)
    assert made.after.pauses == 0
    assert work.coverage == Coverage(day=LAST, status=DayStatus.FAILED, error="Transient: x")


def test_a_gap_on_the_first_day_ends_the_job_with_gaps() -> None:
    made, _ = give_up_day(history("2026-01-01", high_water="second"), "Transient: x")

    assert (made.after.state, made.after.reason) == (JobState.SUCCESS, Reason.DONE_WITH_GAPS)
    assert (made.after.progress.percent, made.after.high_water) == (100.0, "second")


def test_a_gap_somewhere_is_told_at_the_end() -> None:
    job = history("2026-01-01", summary=Summary(days_failed=1))

    made, _ = commit_chunk(job, Chunk(), slice_over=False)

    assert made.after.reason is Reason.DONE_WITH_GAPS


@given(st.lists(st.sampled_from(["held", "empty", "given up"]), min_size=1, max_size=60))
def test_a_whole_history_accounts_for_each_of_its_days_once(days: list[str]) -> None:
    # Given a history of as many days
    first = date(2026, 1, 1)
    last = date.fromordinal(first.toordinal() + len(days) - 1)
    job = paging(
        mode=Mode.HISTORY, start_date=first, end_date=last, cursor=last.isoformat(), token=1
    )

    # When each is read, or given up
    covered = []
    for number, kind in enumerate(days, 1):
        assert job.state is not JobState.SUCCESS
        if kind == "given up":
            made, work = give_up_day(job, "Transient: x")
        else:
            chunk = Chunk(records=RECORDS if kind == "held" else ())
            made, work = commit_chunk(job, chunk, slice_over=False)
        job = made.after
        covered.append(work.coverage.day if work.coverage else None)
        assert job.steps == number

    # Then it is done after the last of them, and every day is covered once
    assert job.state is JobState.SUCCESS
    assert covered == [date.fromordinal(last.toordinal() - back) for back in range(len(days))]
    summary = job.summary
    assert summary.days_held == days.count("held")
    assert summary.days_empty == days.count("empty")
    assert summary.days_failed == days.count("given up")
    assert summary.records == 2 * summary.days_held
    assert job.progress == Progress(done=len(days), total=len(days))
