"""History, day by day, newest first, and how far along it is."""

from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.model.job import Plan, Reprocess
from headgate.model.record import CoverageRow
from headgate.model.states import DayStatus
from headgate.policy.calendar import (
    DAY,
    day_after,
    days_in,
    gaps,
    history_progress,
)

START, END = date(2026, 1, 1), date(2026, 1, 10)

#: Ten years, so that one day is less than a tenth of a percent; more only take longer to walk.
lengths = st.integers(1, 10 * 366)
starts = st.dates(date(1970, 1, 1), date(2100, 1, 1))


def walked(plan: Plan) -> list[date]:
    """The days of a plan, in order."""
    days: list[date] = []
    day = plan[0][1] if plan else None
    while day is not None:
        days.append(day)
        day = day_after(plan, day)
    return days


def test_a_leap_day_is_a_day() -> None:
    first = date(2024, 2, 28)

    assert walked(((first, first + 2 * DAY),)) == [date(2024, 3, 1), date(2024, 2, 29), first]


@pytest.mark.parametrize(
    ("cursor", "done", "percent"),
    [
        (date(2026, 1, 10), 0, 0.0),
        (date(2026, 1, 9), 1, 10.0),
        (date(2026, 1, 1), 9, 90.0),
        (None, 10, 100.0),
    ],
)
def test_progress_is_told_from_start_end_and_cursor(
    cursor: date | None, done: int, percent: float
) -> None:
    progress = history_progress(((START, END),), cursor)

    assert (progress.done, progress.total, progress.percent) == (done, 10, percent)
    assert progress.at == (cursor and cursor.isoformat())


@given(starts, lengths)
@example(END, 1)
def test_every_day_is_read_once_backwards_and_progress_is_complete_only_at_the_end(
    start: date, length: int
) -> None:
    end = start + (length - 1) * DAY
    days = walked(((start, end),))
    assert days == [end - number * DAY for number in range(length)]

    told = [history_progress(((start, end),), day) for day in [*days, None]]

    assert [each.done for each in told] == list(range(length + 1))
    percents = [each.percent or 0.0 for each in told]
    assert percents == sorted(percents)
    assert percents[0] == 0.0
    assert all(0.0 <= percent < 100.0 for percent in percents[:-1])
    assert percents[-1] == 100.0


@given(starts, lengths, st.integers(-5000, 5000))
def test_a_cursor_outside_the_range_still_gives_a_sane_progress(
    start: date, length: int, offset: int
) -> None:
    end = start + timedelta(days=length - 1)

    progress = history_progress(((start, end),), end - timedelta(days=offset))

    assert 0 <= progress.done <= length
    assert progress.total == length


# What is held already.


def row(day: date, status: DayStatus = DayStatus.HELD, *, read_after_days: int = 30) -> CoverageRow:
    at = datetime.combine(day, time(), UTC) + timedelta(days=read_after_days)
    return CoverageRow(
        day=day, status=status, sync="s", connection_id="c", job_id="j", updated_at=at
    )


def test_only_the_days_that_nobody_has_read_are_planned() -> None:
    known = [row(date(2026, 1, day)) for day in (2, 3, 7)]

    assert gaps(START, END, known) == (
        (date(2026, 1, 8), END),
        (date(2026, 1, 4), date(2026, 1, 6)),
        (START, START),
    )


@pytest.mark.parametrize(
    ("status", "reprocess", "days"),
    [
        (DayStatus.HELD, Reprocess.NONE, 9),
        (DayStatus.EMPTY, Reprocess.NONE, 9),
        (DayStatus.FAILED, Reprocess.NONE, 9),
        (DayStatus.HELD, Reprocess.FAILED, 9),
        (DayStatus.EMPTY, Reprocess.FAILED, 9),
        (DayStatus.FAILED, Reprocess.FAILED, 10),
        (DayStatus.HELD, Reprocess.ALL, 10),
        (DayStatus.EMPTY, Reprocess.ALL, 10),
    ],
)
def test_what_is_read_again_is_asked_for(
    status: DayStatus, reprocess: Reprocess, days: int
) -> None:
    assert days_in(gaps(START, END, [row(date(2026, 1, 5), status)], reprocess)) == days


def test_a_day_that_was_read_before_it_was_over_everywhere_is_read_again() -> None:
    early = row(END, read_after_days=1)

    assert gaps(END, END, [early]) == ((END, END),)
    assert gaps(END, END, [row(END, read_after_days=2)]) == ()


@given(st.sets(st.integers(0, 60)), st.integers(1, 60))
def test_a_plan_has_exactly_the_days_that_are_not_held(held: set[int], length: int) -> None:
    end = START + (length - 1) * DAY
    known = [row(START + number * DAY) for number in held]

    plan = gaps(START, end, known)

    wanted = [START + number * DAY for number in range(length) if number not in held]
    assert walked(plan) == wanted[::-1]
    assert days_in(plan) == len(wanted)
    done = [history_progress(plan, day).done for day in walked(plan)]
    assert done == list(range(len(wanted)))


def test_a_plan_in_many_pieces_has_the_missing_days_and_no_other() -> None:
    # Given ten years of which every second day is missing
    days = 10 * 365
    missing = [START + number * DAY for number in range(0, days, 2)]
    known = [row(START + number * DAY) for number in range(1, days, 2)]

    plan = gaps(START, START + (days - 1) * DAY, known)

    assert walked(plan) == missing[::-1]
