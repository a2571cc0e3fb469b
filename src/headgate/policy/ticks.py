"""The plan of a tick: which users get a job, when each of them starts, and who gets none.

Few users start at a fixed distance, in a fixed order. If there are too many for that, they are
spread evenly over the whole time, in an order that changes with every tick, so that the same user
is not always last. The provider's limits widen the distance, and where they do not allow all jobs,
those are left out whose last one is the most recent. A user who wants a time of the day starts
then, if the tick's period has it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from math import floor

import msgspec

from headgate.base.encoding import hash_text
from headgate.base.errors import InvalidInput
from headgate.base.zones import find_zone, instant_of, wall_of
from headgate.model.candidate import Candidate, PlannedStart, Skip, TickPlan
from headgate.model.schedule import Schedule, SkipReason
from headgate.policy.allowance import Allowance
from headgate.policy.calendar import DAY
from headgate.policy.eligible import skip_reason
from headgate.policy.entitlement import Entitlement

#: A tick that fires up to this much late keeps its times; later, they count from the firing.
LATE_AFTER = timedelta(minutes=1)
#: How long those may take who want to start at the same time of the day.
SAME_TIME_WINDOW = timedelta(hours=1)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a tick has for its users: from the tick to the next one."""

    tick: datetime
    #: The present time, by the store's clock.
    now: datetime
    #: The next tick after the present time.
    ends: datetime
    #: Somebody asked for it: users' wishes for a frequency or a time of the day do not count.
    asked: bool = False

    @property
    def begins(self) -> datetime:
        """When the first user may start."""
        return self.tick if self.now - self.tick <= LATE_AFTER else self.now


class _Slots(msgspec.Struct, frozen=True):
    """The starts of some users: the first one, the distance between two, and how many there are."""

    begin: datetime
    distance: timedelta
    count: int
    dynamic: bool = False

    def starts(self, candidates: Sequence[Candidate], tick: datetime) -> list[PlannedStart]:
        """Give each candidate a slot; if there are too few, the last ones get none."""
        ordered = in_turn(candidates, tick) if self.dynamic else candidates
        return [
            PlannedStart(each, self.begin + place * self.distance)
            for place, each in enumerate(ordered[: self.count])
        ]


def plan_tick(
    schedule: Schedule,
    period: Period,
    candidates: Sequence[Candidate],
    allowance: Allowance,
    *,
    entitlement: Entitlement | None = None,
) -> TickPlan:
    """Plan a tick for all candidates; few of them start in the order in which they are given."""
    reasons: dict[str, SkipReason] = {}
    wanted: list[Candidate] = []
    for each in candidates:
        reason = skip_reason(
            schedule, each, period.tick, now=period.now, entitlement=entitlement, asked=period.asked
        )
        if reason is None:
            wanted.append(each)
        else:
            reasons[each.connection_id] = reason
    allowed = _requests_allowed(period, allowance)
    served = _serve(schedule, period, wanted, allowed)
    groups = _slots_by_anchor(schedule, period, served, allowance)
    starts = [start for slots, group in groups for start in slots.starts(group, period.tick)]
    starting = {each.candidate.connection_id for each in starts}
    for each in wanted:
        if each.connection_id not in starting:
            reasons[each.connection_id] = SkipReason.NO_BUDGET
    return TickPlan(
        tick=period.tick,
        starts=tuple(sorted(starts, key=lambda start: start.at)),
        skips=tuple(
            Skip(each, reasons[each.connection_id])
            for each in candidates
            if each.connection_id in reasons
        ),
        active=len(wanted),
        dynamic=len(served) < len(wanted) or any(slots.dynamic for slots, _ in groups),
        requests_needed=len(wanted) * schedule.requests,
        requests_allowed=allowed,
    )


def in_turn(candidates: Sequence[Candidate], tick: datetime) -> list[Candidate]:
    """Candidates in an order that changes with every tick; those who got no job last go first."""
    return sorted(
        candidates,
        key=lambda each: (
            each.last_tick or _LONG_AGO,
            hash_text(f"{tick.isoformat()} {each.user_id} {each.connection_id}"),
        ),
    )


def _requests_allowed(period: Period, allowance: Allowance) -> int | None:
    """How many requests the jobs of the tick may take, if the next ticks are to have as many."""
    if period.asked:
        return allowance.requests_at_once((period.ends - period.begins).total_seconds())
    return allowance.requests_in_each((period.ends - period.tick).total_seconds())


def _serve(
    schedule: Schedule, period: Period, wanted: Sequence[Candidate], allowed: int | None
) -> Sequence[Candidate]:
    """The candidates for whom there are enough requests; always one, or nobody ever has a turn."""
    most = len(wanted) if allowed is None else max(1, allowed // schedule.requests)
    if len(wanted) <= most:
        return wanted
    served = {each.connection_id for each in in_turn(wanted, period.tick)[:most]}
    return [each for each in wanted if each.connection_id in served]


def _slots_by_anchor(
    schedule: Schedule, period: Period, served: Sequence[Candidate], allowance: Allowance
) -> list[tuple[_Slots, list[Candidate]]]:
    """The slots of those who take any time, and of those who want the same time of the day."""
    groups = []
    for anchor, group in _by_anchor(period, served).items():
        if anchor is None:
            begin, span = period.begins, schedule.window or period.ends - period.begins
        else:
            begin, span = anchor, _same_time_span(schedule, anchor, len(group), period, allowance)
        end = min(begin + span, period.ends)
        groups.append((_slots(schedule, len(group), begin, end, allowance), group))
    return groups


def _by_anchor(
    period: Period, candidates: Sequence[Candidate]
) -> Mapping[datetime | None, list[Candidate]]:
    groups: dict[datetime | None, list[Candidate]] = {}
    for each in candidates:
        anchor = None if period.asked else _anchor(each, period)
        groups.setdefault(anchor, []).append(each)
    return groups


def _anchor(candidate: Candidate, period: Period) -> datetime | None:
    """The instant in the period at which it is the time of the day that the user wants, if any."""
    wish = candidate.preferences
    if wish.time is None:
        return None
    try:
        zone = find_zone("zone", wish.zone)
    except InvalidInput:
        # Another machine knew the zone. The user gets a job all the same.
        return None
    clock = time.fromisoformat(wish.time)
    today = wall_of(period.tick, zone).date()
    at = instant_of(datetime.combine(today, clock), zone)
    if at < period.tick:
        at = instant_of(datetime.combine(today + DAY, clock), zone)
    return at if period.begins <= at < period.ends else None


def _same_time_span(
    schedule: Schedule, anchor: datetime, count: int, period: Period, allowance: Allowance
) -> timedelta:
    """How long those take who want the same time: longer than usual only for the budget's sake."""
    left_s = (period.ends - anchor).total_seconds()
    needed = timedelta(seconds=count * allowance.distance_s(schedule.requests, left_s))
    return max(SAME_TIME_WINDOW, needed)


def _slots(
    schedule: Schedule, count: int, begin: datetime, end: datetime, allowance: Allowance
) -> _Slots:
    """Slots for so many users from `begin` to `end`: at a fixed distance if they fit."""
    span_s = (end - begin).total_seconds()
    least_s = allowance.distance_s(schedule.requests, span_s)
    fixed_s = max(schedule.distance.total_seconds(), least_s)
    if count * fixed_s <= span_s:
        return _Slots(begin, timedelta(seconds=fixed_s), count)
    # Quotients of seconds are not exact, and a user less is worse than a millionth of a second.
    fitting = min(count, max(1, floor(span_s / least_s + 1e-6))) if least_s else count
    return _Slots(begin, timedelta(seconds=span_s / fitting), fitting, dynamic=True)
