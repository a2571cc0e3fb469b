"""A job's own arithmetic: percent, the day it reads, the key of its chunk."""

from datetime import date, timedelta
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.model.job import JobParams, Mode, Plan, Progress
from tests.unit.values import make_job

COUNTS = st.integers(min_value=0, max_value=10**9)


@given(COUNTS)
def test_percent_is_unknown_while_the_total_is(done: int) -> None:
    assert Progress(done=done).percent is None


@given(COUNTS)
def test_nothing_to_do_is_all_done(done: int) -> None:
    assert Progress(done=done, total=0).percent == 100.0


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_percent_stays_between_0_and_100_whatever_a_source_reports(done: int, total: int) -> None:
    percent = Progress(done=done, total=total).percent

    assert percent is not None
    assert 0.0 <= percent <= 100.0


@given(COUNTS, COUNTS, st.integers(1, 10**9))
def test_percent_never_falls_as_more_is_done(one: int, other: int, total: int) -> None:
    less, more = sorted([one, other])

    before, after = Progress(done=less, total=total), Progress(done=more, total=total)

    assert (before.percent or 0.0) <= (after.percent or 0.0)


@given(COUNTS, st.integers(1, 10**9))
def test_percent_is_100_only_when_all_is_done(done: int, total: int) -> None:
    assert (Progress(done=done, total=total).percent == 100.0) == (done >= total)


@given(st.integers(1, 10**9))
def test_all_but_one_is_never_100_percent(total: int) -> None:
    assert Progress(done=total - 1, total=total).percent != 100.0


@pytest.mark.parametrize(
    ("done", "total", "percent"),
    [(0, 3, 0.0), (1, 3, 33.3), (2, 3, 66.6), (1, 2, 50.0), (3, 3, 100.0), (2191, 2192, 99.9)],
)
def test_percent_has_one_decimal_rounded_down(done: int, total: int, percent: float) -> None:
    assert Progress(done=done, total=total).percent == percent


def test_a_history_job_reads_the_day_of_its_cursor() -> None:
    job = make_job(mode=Mode.HISTORY, cursor="2022-10-27")

    assert job.cursor_date == date(2022, 10, 27)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.HISTORY])
def test_in_other_modes_a_cursor_is_no_day(mode: Mode) -> None:
    assert make_job(mode=mode, cursor="2022-10-27").cursor_date is None


def test_a_history_job_without_a_cursor_reads_no_day() -> None:
    assert make_job(mode=Mode.HISTORY).cursor_date is None


def test_a_history_job_reads_its_whole_range_unless_it_is_told_which_days() -> None:
    first, last = date(2026, 1, 1), date(2026, 1, 9)
    whole = make_job(mode=Mode.HISTORY, start_date=first, end_date=last)
    some = replace(whole, params=JobParams(plan=((first, date(2026, 1, 2)), (last, last))))

    assert whole.plan == ((first, last),)
    assert some.plan == ((first, date(2026, 1, 2)), (last, last))


@given(
    st.dates(date(1970, 1, 1), date(2100, 1, 1)),
    st.sets(st.integers(0, 400), min_size=1),
    st.integers(0, 3),
)
def test_a_plan_is_read_as_it_was_written_in_few_stretches_or_many(
    start: date, numbers: set[int], stretches_max: int
) -> None:
    days = [start + timedelta(days=number) for number in sorted(numbers, reverse=True)]
    plan: Plan = ()
    for day in days:
        if plan and plan[-1][0] - day == timedelta(days=1):
            plan = (*plan[:-1], (day, plan[-1][1]))
        else:
            plan = (*plan, (day, day))

    with patch("headgate.model.job.STRETCHES_MAX", stretches_max):
        params = JobParams().with_plan(plan, start)
    stored = msgspec.json.decode(msgspec.json.encode(params), type=JobParams)
    job = make_job(mode=Mode.HISTORY, start_date=start, end_date=days[0], params=stored)

    assert job.plan == plan
    assert (stored.plan is None) == (len(plan) > stretches_max)


def test_a_plan_with_a_gap_every_second_day_of_a_century_stays_small() -> None:
    start = date(1926, 1, 1)
    plan = tuple((day := start + timedelta(days=n), day) for n in range(36_524, -1, -2))

    assert len(msgspec.json.encode(JobParams().with_plan(plan, start))) < 10_000


def test_a_job_without_a_range_has_no_days_to_read() -> None:
    assert make_job(mode=Mode.FULL).plan == ()


def test_every_attempt_at_a_chunk_has_one_key_and_the_next_chunk_another() -> None:
    first = make_job(steps=3)
    again = make_job(steps=3, token=7, attempts=2, crashes=1)
    then = make_job(steps=4)

    assert first.chunk_key == again.chunk_key
    assert first.chunk_key != then.chunk_key
    assert first.chunk_key != make_job(id="job_2", steps=3).chunk_key
