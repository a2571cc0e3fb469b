"""A job's own arithmetic: percent, the day it reads, the key of its chunk."""

from datetime import date, timedelta
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.model.job import JobParams, Mode, Plan, Progress
from tests.unit.values import make_job

COUNTS = st.integers(min_value=0, max_value=10**9)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
@example(10**9 - 1, 10**9)
@example(0, 0)
def test_percent_stays_between_0_and_100_and_is_whole_when_all_is_done(
    done: int, total: int
) -> None:
    percent = Progress(done=done, total=total).percent

    assert percent is not None
    assert 0.0 <= percent <= 100.0
    assert (percent == 100.0) == (done >= total or total <= 0)


@given(COUNTS, COUNTS, st.integers(1, 10**9))
def test_percent_never_falls_as_more_is_done(one: int, other: int, total: int) -> None:
    less, more = sorted([one, other])

    before, after = Progress(done=less, total=total), Progress(done=more, total=total)

    assert (before.percent or 0.0) <= (after.percent or 0.0)


@pytest.mark.parametrize(
    ("done", "total", "percent"),
    [
        *((0, 3, 0.0), (1, 3, 33.3), (2, 3, 66.6), (1, 2, 50.0), (3, 3, 100.0), (2191, 2192, 99.9)),
        # It is unknown while the total is, and with nothing to do all is done.
        *((7, None, None), (7, 0, 100.0)),
    ],
)
def test_percent_has_one_decimal_rounded_down(
    done: int, total: int | None, percent: float | None
) -> None:
    assert Progress(done=done, total=total).percent == percent


@pytest.mark.parametrize("mode", Mode)
def test_a_history_job_reads_the_day_of_its_cursor_and_no_other_job_reads_a_day(mode: Mode) -> None:
    day = date(2022, 10, 27)

    read = make_job(mode=mode, cursor=day.isoformat()).cursor_date

    assert read == (day if mode is Mode.HISTORY else None)
    assert make_job(mode=mode).cursor_date is None


def test_a_history_job_reads_its_whole_range_unless_it_is_told_which_days() -> None:
    first, last = date(2026, 1, 1), date(2026, 1, 9)
    whole = make_job(mode=Mode.HISTORY, start_date=first, end_date=last)
    some = replace(whole, params=JobParams(plan=((first, date(2026, 1, 2)), (last, last))))

    assert make_job(mode=Mode.FULL).plan == ()
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


def test_every_attempt_at_a_chunk_has_one_key_and_the_next_chunk_another() -> None:
    first = make_job(steps=3)
    again = make_job(steps=3, token=7, attempts=2, crashes=1)
    then = make_job(steps=4)

    assert first.chunk_key == again.chunk_key
    assert first.chunk_key != then.chunk_key
    assert first.chunk_key != make_job(id="job_2", steps=3).chunk_key
