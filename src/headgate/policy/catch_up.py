"""Which tick is due, and what becomes of those that were missed while no scheduler ran."""

from datetime import datetime, timedelta

import msgspec

from headgate.model.schedule import CatchUp, Schedule
from headgate.policy.cron import next_tick, ticks_until

#: A tick that fires up to this much late was not missed: a worker has restarted, or the database.
MISSED_AFTER = timedelta(minutes=10)
#: Of more missed ticks than these, only the last ones fire.
CATCH_UP_MAX = 24
#: So many missed ticks are counted, and not more.
COUNT_MAX = 1000


class DueTick(msgspec.Struct, frozen=True, kw_only=True):
    """What is due of a schedule."""

    #: The tick to fire; None: those that are due were missed, and none fires.
    tick: datetime | None
    #: The ticks before it that do not fire.
    missed: int
    #: The next tick after it.
    next_tick_at: datetime


def due_tick(schedule: Schedule, planned: datetime, now: datetime) -> DueTick:
    """Decide about the ticks from `planned`, which is the next one, up to now."""
    assert schedule.cron is not None and planned <= now
    cron, zone = schedule.cron, schedule.zone
    due = ticks_until(cron, zone, planned, now, COUNT_MAX)
    if schedule.catch_up is CatchUp.ALL:
        firing = due[-CATCH_UP_MAX:]
        missed, tick = len(due) - len(firing), firing[0]
    else:
        missed, tick = len(due) - 1, due[-1]
    following = next_tick(cron, zone, tick)
    if schedule.catch_up is CatchUp.NONE and now - tick > MISSED_AFTER:
        return DueTick(tick=None, missed=missed + 1, next_tick_at=following)
    return DueTick(tick=tick, missed=missed, next_tick_at=following)
