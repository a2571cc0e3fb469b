"""History, day by day, newest first, and how far along it is."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.job import Mode, Progress
from headgate.policy.calendar import DAY, day_after, history_progress
from tests.unit.values import make_job

START, END = date(2026, 1, 1), date(2026, 1, 10)

#: Ten years, so that one day is less than a tenth of a percent; more only take longer to walk.
lengths = st.integers(1, 10 * 366)
starts = st.dates(date(1970, 1, 1), date(2100, 1, 1))


def walk(start: date, end: date) -> list[date]:
    """The days that a history job reads, in order."""
    job = make_job(mode=Mode.HISTORY, start_date=start, end_date=end)
    days, day = [end], day_after(job, end)
    while day is not None:
        days.append(day)
        day = day_after(job, day)
    return days


@given(starts, lengths)
def test_every_day_is_read_once_from_the_last_back_to_the_first(start: date, length: int) -> None:
    end = start + (length - 1) * DAY

    assert walk(start, end) == [end - number * DAY for number in range(length)]


def test_the_first_day_has_none_after_it() -> None:
    job = make_job(mode=Mode.HISTORY, start_date=START, end_date=END)

    assert day_after(job, START) is None
    assert day_after(job, START + DAY) == START


def test_a_leap_day_is_a_day() -> None:
    assert walk(date(2024, 2, 28), date(2024, 3, 1)) == [
        date(2024, 3, 1),
        date(2024, 2, 29),
        date(2024, 2, 28),
    ]


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
    progress = history_progress(START, END, cursor)

    assert (progress.done, progress.total, progress.percent) == (done, 10, percent)
    assert progress.at == (cursor and cursor.isoformat())


def test_a_single_day_goes_from_nothing_to_everything() -> None:
    assert history_progress(END, END, END).percent == 0.0
    assert history_progress(END, END, None).percent == 100.0


@given(starts, lengths)
def test_progress_rises_with_every_day_and_is_complete_only_at_the_end(
    start: date, length: int
) -> None:
    end = start + (length - 1) * DAY

    told = [history_progress(start, end, day) for day in walk(start, end)]
    told.append(history_progress(start, end, None))

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

    progress = history_progress(start, end, end - timedelta(days=offset))

    assert 0 <= progress.done <= length
    assert progress.total == length


def test_a_finished_history_works_on_no_day() -> None:
    assert history_progress(START, END, None) == Progress(done=10, total=10)
