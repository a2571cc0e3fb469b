"""Days: which of them are read, in what order, and how far along that is. Days are UTC days."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

from headgate.model.job import Plan, Progress, Reprocess
from headgate.model.record import CoverageRow
from headgate.model.states import DayStatus

DAY = timedelta(days=1)
#: A day is over everywhere on Earth, and what was measured on it has come in; a day that seems to
#: have been without anything may wait for a watch that is not in reach.
SETTLED_AFTER = {DayStatus.HELD: timedelta(days=2), DayStatus.EMPTY: timedelta(days=7)}
#: A plan in more pieces than this is simplified: held days in between are read once more.
STRETCHES_MAX = 500


def gaps(
    start: date, end: date, known: Iterable[CoverageRow], reprocess: Reprocess = Reprocess.FAILED
) -> Plan:
    """The days from `start` to `end` that are to be read, going by what is known of them."""
    if reprocess is Reprocess.ALL:
        return ((start, end),)
    done = {row.day for row in known if _is_done(row, reprocess)}
    stretches: list[tuple[date, date]] = []
    # By number: the day before the first of all days is none.
    for number in range(end.toordinal(), start.toordinal() - 1, -1):
        day = date.fromordinal(number)
        if day in done:
            continue
        if stretches and stretches[-1][0] - day == DAY:
            stretches[-1] = (day, stretches[-1][1])
        else:
            stretches.append((day, day))
    return _simplify(stretches)


def _is_done(row: CoverageRow, reprocess: Reprocess) -> bool:
    if row.status is DayStatus.FAILED:
        return reprocess is Reprocess.NONE
    # What was read before the day was over may be a part of it.
    over = datetime.combine(row.day, time(), UTC)
    return row.updated_at - over >= SETTLED_AFTER[row.status]


def _simplify(stretches: list[tuple[date, date]]) -> Plan:
    """Not more than so many: the closest are joined."""
    if len(stretches) <= STRETCHES_MAX:
        return tuple(stretches)
    gap_days = [(newer[0] - older[1]).days for newer, older in pairwise(stretches)]
    widest = set(sorted(range(len(gap_days)), key=gap_days.__getitem__)[-(STRETCHES_MAX - 1) :])
    joined = [stretches[0]]
    for place, stretch in enumerate(stretches[1:]):
        if place in widest:
            joined.append(stretch)
        else:
            joined[-1] = (stretch[0], joined[-1][1])
    return tuple(joined)


def days_in(plan: Plan) -> int:
    """How many days it has."""
    return sum((last - first).days + 1 for first, last in plan)


def day_after(plan: Plan, day: date) -> date | None:
    """The day to read after `day`, going back in time; None when `day` was the last."""
    for first, last in plan:
        if first < day:
            return min(day - DAY, last)
    return None


def history_progress(plan: Plan, cursor: date | None) -> Progress:
    """Days read out of days to be read; `cursor` is the day being read, None when all are done."""
    total = days_in(plan)
    if cursor is None:
        return Progress(done=total, total=total)
    done = sum((last - max(first, cursor + DAY)).days + 1 for first, last in plan if last > cursor)
    return Progress(done=done, total=total, at=cursor.isoformat())
