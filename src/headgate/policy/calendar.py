"""The days of a backfill: which are read, in which order, and how many are done. Days are UTC."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile

from headgate.model.job import Plan, Progress, Reprocess
from headgate.model.record import CoverageRow
from headgate.model.states import DayStatus

DAY = timedelta(days=1)
#: How long after its start a day is final: by then it is over everywhere on Earth, and its data
#: has arrived. An empty day waits longer, because a watch may still have to send its data.
SETTLED_AFTER = {DayStatus.HELD: timedelta(days=2), DayStatus.EMPTY: timedelta(days=7)}
#: How much older than a bad day the days are that are tried in its place, one after another: the
#: days next to it may be bad as well.
TRIAL_DAYS = (1, 7, 30, 365)


def gaps(
    start: date, end: date, known: Iterable[CoverageRow], reprocess: Reprocess = Reprocess.FAILED
) -> Plan:
    """The days from `start` to `end` to read, given the coverage that is `known`."""
    if reprocess is Reprocess.ALL:
        return ((start, end),)
    done = {row.day for row in known if _is_done(row, reprocess)}
    if not done:
        return ((start, end),)
    stretches: list[tuple[date, date]] = []
    # Counted by ordinal, because the first possible date has no day before it.
    for number in range(end.toordinal(), start.toordinal() - 1, -1):
        day = date.fromordinal(number)
        if day in done:
            continue
        if stretches and stretches[-1][0] - day == DAY:
            stretches[-1] = (day, stretches[-1][1])
        else:
            stretches.append((day, day))
    return tuple(stretches)


def _is_done(row: CoverageRow, reprocess: Reprocess) -> bool:
    if row.status is DayStatus.FAILED:
        return reprocess is Reprocess.NONE
    # A day that was read before it was final may be incomplete.
    over = datetime.combine(row.day, time(), UTC)
    return row.updated_at - over >= SETTLED_AFTER[row.status]


def days_in(plan: Plan) -> int:
    """The number of days in the plan."""
    # By ordinal, which is quicker: a plan may have thousands of stretches, and every chunk counts.
    return len(plan) + sum(last.toordinal() - first.toordinal() for first, last in plan)


def day_after(plan: Plan, day: date) -> date | None:
    """The day to read after `day`, going back in time; None if `day` was the last."""
    for first, last in plan:
        if first < day:
            return min(day - DAY, last)
    return None


def trial_day(day: date, tries: int) -> date:
    """An older day, to try whether only `day` fails; a further one after more `tries`."""
    older = TRIAL_DAYS[tries % len(TRIAL_DAYS)]
    return date.fromordinal(max(1, day.toordinal() - older))


def history_progress(plan: Plan, cursor: date | None) -> Progress:
    """The days read of the days to read; `cursor` is the present day, None when all are done."""
    total = days_in(plan)
    if cursor is None:
        return Progress(done=total, total=total)
    at = cursor.toordinal()
    done = sum(
        last.toordinal() - max(first.toordinal() - 1, at)
        for first, last in takewhile(lambda stretch: stretch[1] > cursor, plan)
    )
    return Progress(done=done, total=total, at=cursor.isoformat())
