"""The ticks of a cron expression in a time zone, as instants.

The expression says what a clock on the wall shows. An expression with fixed hours and minutes, such
as `30 2 * * *`, fires once for every such time: where the clock skips it, at the moment when the
clock is set; where the clock shows it twice, the first time. An expression that repeats within
hours or in every hour (`*/15 * * * *`) fires whenever the clock shows such a time: in a repeated
hour twice, in a skipped one not at all. This is what Debian's cron does.

Ticks are computed from the tick before, never from the present time, and always increase.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from itertools import islice, takewhile

from headgate.base.zones import instant_of, instants_of, wall_of

#: How far back the last tick is looked for, first here and then there.
_LOOKS_BACK = (
    timedelta(hours=1),
    timedelta(days=1),
    timedelta(days=32),
    timedelta(days=366),
    timedelta(days=366 * 60),
)


def next_tick(cron: str, zone: tzinfo, after: datetime) -> datetime:
    """The first tick after the instant `after`."""
    wall = wall_of(after, zone)
    if _is_fixed(cron):
        return _first(cron, wall, after, lambda each: (instant_of(each, zone),))
    # A time that the clock shows twice counts at both instants. While it shows such times for the
    # first time, the second instants of earlier ones are still ahead.
    shown = instants_of(wall, zone)
    again = wall - (shown[-1] - shown[0]) if len(shown) > 1 else wall
    return min(
        _first(cron, wall, after, lambda each: instants_of(each, zone)[:1]),
        _first(cron, again, after, lambda each: instants_of(each, zone)[-1:]),
    )


def ticks_after(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """All ticks after the instant `after`, in order; there is no last one."""
    while True:
        after = next_tick(cron, zone, after)
        yield after


def next_ticks(cron: str, zone: tzinfo, after: datetime, count: int) -> list[datetime]:
    """The first `count` ticks after the instant `after`."""
    return list(islice(ticks_after(cron, zone, after), count))


def ticks_until(
    cron: str, zone: tzinfo, first: datetime, until: datetime, limit: int
) -> list[datetime]:
    """The ticks from `first`, which is one, to `until`; if more than `limit`, the last ones."""
    for back in _LOOKS_BACK:
        begin = max(first, until - back)
        found = [begin] if begin == first else []
        found += takewhile(lambda tick: tick <= until, ticks_after(cron, zone, begin))
        if begin == first or len(found) >= limit:
            return found[-limit:]
    raise AssertionError("a tick is older than the clock")


def _first(
    cron: str,
    wall: datetime,
    after: datetime,
    to_instants: Callable[[datetime], tuple[datetime, ...]],
) -> datetime:
    """The first instant after `after` of a time of the expression that is later than `wall`."""
    # Imported where it is used: not every application has a schedule.
    from cronsim import CronSim

    for shown in CronSim(cron, wall):
        for at in to_instants(shown):
            if at > after:
                return at
    raise AssertionError(f"{cron!r} has no tick after {after}")


def _is_fixed(cron: str) -> bool:
    minute, hour = cron.split()[:2]
    return not minute.startswith("*") and not hour.startswith("*")
