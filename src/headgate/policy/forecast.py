"""How long a job takes: estimated before it starts and while it runs, by the same code.

What is known decides how wide the range is. The job's own chunks and the user's earlier jobs tell
the rate of this user; the jobs of others tell the speed of the providers; else there is only what
the sync declares. The rest is played through the windows ahead, once with the least that is likely
and once with the most. An outage is not foreseen, so there is no estimate while requests fail.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil, sqrt

import msgspec

from headgate.model.budget import Budget
from headgate.model.forecast import DayCost, Finish, Forecast, LeftForLive, Requests
from headgate.model.job import Job, Reason
from headgate.model.pace import Pace
from headgate.model.states import JobState
from headgate.policy.pace import add, capped, variation
from headgate.policy.windows_ahead import LimitsAhead, Needs, play_s

#: A pace is known from at least five chunks, which together weigh a little less.
CHUNKS_MIN = 4.5
#: An earlier job of the same user counts like so many chunks of the present one.
EARLIER_CHUNKS = 40
#: The seconds of a request where no job has measured them yet.
REQUEST_S = (0.05, 0.3, 1.5)
#: How far the speed of a provider may be from what others measured.
SPEED = (0.75, 1.0, 1.35)
#: How many standard deviations the range has to each side.
DEVIATIONS = 2.2
#: How far the needs are off however much was measured, and at most: to less, and to more.
OFF_MIN, OFF_LESS_MAX, OFF_MORE_MAX = 0.07, 0.85, 2.0
#: How far the end is off however sure the needs are: as a share of what is left, and in seconds.
SLACK, SLACK_S = 0.01, 2.0
#: How much of the usual the others at a provider, and live work, take at least and at most.
OTHERS = (0.5, 1.0, 1.25)
LIVE = (0.5, 1.0, 1.5)

#: Why a job waits, where nobody knows for how long.
_ENDLESS = frozenset({Reason.IDLE, Reason.NO_LIMITER, Reason.CONNECTION_PAUSED})


class PaceInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What an estimate is made from: measured paces, and declared costs."""

    #: The pace of this user: of the job itself, and of earlier ones.
    own: Pace = Pace()
    #: The paces of other users' jobs of the sync.
    others: Sequence[Pace] = ()
    #: What the sync declares.
    costs: Sequence[DayCost] = ()


class NeedsRange(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of one unit: the least, the mean and the most that are likely."""

    least: Needs
    mean: Needs
    most: Needs


def with_earlier(pace: Pace, earlier: Sequence[Pace]) -> Pace:
    """The pace of a job and of the user's earlier ones, which count less."""
    before = Pace()
    for each in earlier:
        before = add(before, each)
    return add(capped(before, EARLIER_CHUNKS), pace)


def needs_of(known: PaceInputs, units: float) -> NeedsRange | None:
    """The needs of one of the `units` that are left; None if nothing is known."""
    if known.own.chunks >= CHUNKS_MIN and known.own.units > 0:
        off = _off(known.own, units)
        needs = _needs(known.own)
        return NeedsRange(least=_less(needs, off), mean=needs, most=_more(needs, off))
    measured = [each for each in known.others if each.chunks >= CHUNKS_MIN and each.units > 0]
    if known.costs:
        return _declared(known.costs, measured)
    if not measured:
        return None
    # Every user is different: from the quickest to the slowest, with what one may be off.
    ordered = sorted(measured, key=lambda each: each.seconds / each.units)
    return NeedsRange(
        least=_less(_needs(ordered[0]), _off(ordered[0], units)),
        mean=_needs(ordered[len(ordered) // 2]),
        most=_more(_needs(ordered[-1]), _off(ordered[-1], units)),
    )


def finish_of(units: float, needs: NeedsRange, limits: LimitsAhead, *, start: datetime) -> Finish:
    """When so many units are done that begin at `start`."""
    start_s = start.timestamp()
    plays = zip((needs.least, needs.mean, needs.most), OTHERS, LIVE, strict=True)
    # Sorted: more requests may pass a busy window that fewer requests wait in.
    least_s, likely_s, most_s = sorted(
        play_s(units, each, limits, start_s=start_s, others=others, live=live)
        for each, others, live in plays
    )
    slack_s = SLACK_S + SLACK * likely_s if units else 0.0
    return Finish(
        earliest=start + timedelta(seconds=max(0.0, least_s - slack_s)),
        likely=start + timedelta(seconds=likely_s),
        latest=start + timedelta(seconds=most_s + slack_s),
    )


def forecast(
    days: int, days_held: int, needs: NeedsRange | None, limits: LimitsAhead, *, now: datetime
) -> Forecast:
    """The forecast of reading `days`."""
    if needs is None:
        return Forecast(days=days, days_held=days_held)
    return Forecast(
        days=days,
        days_held=days_held,
        requests=_requests(days, needs),
        left_for_live=_left_for_live(needs, limits.budgets),
        finish=finish_of(days, needs, limits, start=now),
    )


def is_foreseeable(job: Job) -> bool:
    """Whether the end of the job can be estimated: it has one, and nothing fails or waits."""
    if job.ended or job.state is JobState.CANCELLING or job.progress.total is None:
        return False
    return not (is_failing(job) or is_paused(job) or job.pause_requested)


def is_failing(job: Job) -> bool:
    """Whether the last requests failed: nobody knows when they succeed again."""
    return job.error is not None or job.probe or job.attempts > 0 or bool(job.recent_errors)


def is_paused(job: Job) -> bool:
    """Whether the job waits for something that has no known end."""
    return job.state is JobState.PAUSED or (
        job.state is JobState.PENDING and job.reason in _ENDLESS
    )


def _needs(pace: Pace) -> Needs:
    whole = Needs(work_s=pace.work_s, requests=pace.requests, own_s=pace.own_s)
    return whole.times(1 / pace.units)


def _off(pace: Pace, units: float) -> float:
    """How far the mean of what is left may be from the mean of what was measured, as a share."""
    left = max(1.0, units * pace.chunks / pace.units)
    spread = DEVIATIONS * variation(pace) * sqrt(1 / pace.chunks + 1 / left)
    return sqrt(spread**2 + OFF_MIN**2)


def _less(needs: Needs, off: float) -> Needs:
    return needs.times(1 - min(off, OFF_LESS_MAX))


def _more(needs: Needs, off: float) -> Needs:
    return needs.times(1 + min(off, OFF_MORE_MAX))


def _declared(costs: Sequence[DayCost], measured: Sequence[Pace]) -> NeedsRange:
    """The needs by what the sync declares, at the speed that others measured."""
    requests_of = [_by_kind(costs, weight) for weight in (0.0, 0.5, 1.0)]
    least, mean, most = (
        Needs(
            work_s={
                provider: sum(kinds.values()) * _request_s(provider, measured)[side]
                for provider, kinds in requests.items()
            },
            requests=requests,
            own_s=sum(each.own_s / each.units for each in measured) / len(measured)
            if measured
            else 0.0,
        )
        for side, requests in enumerate(requests_of)
    )
    return NeedsRange(least=least, mean=mean, most=most)


def _by_kind(costs: Sequence[DayCost], weight: float) -> dict[str, dict[str, float]]:
    """The requests of one day by kind: from the least, with weight 0, to the most, with 1."""
    requests: dict[str, dict[str, float]] = {}
    for cost in costs:
        kinds = requests.setdefault(cost.provider, {})
        count = cost.least + weight * (cost.most - cost.least)
        kinds[cost.kind] = kinds.get(cost.kind, 0.0) + count
    return requests


def _request_s(provider: str, measured: Sequence[Pace]) -> Sequence[float]:
    """The seconds of one request: the least, the mean and the most that are likely."""
    requests = sum(sum(each.requests.get(provider, {}).values()) for each in measured)
    if not requests:
        return REQUEST_S
    work_s = sum(each.work_s.get(provider, 0.0) for each in measured)
    return [factor * work_s / requests for factor in SPEED]


def _requests(days: int, needs: NeedsRange) -> tuple[Requests, ...]:
    def count(of: Needs, provider: str) -> int:
        return sum(ceil(days * each) for each in of.requests.get(provider, {}).values())

    return tuple(
        Requests(provider=each, least=count(needs.least, each), most=count(needs.most, each))
        for each in sorted(needs.least.requests)
    )


def _left_for_live(needs: NeedsRange, budgets: Mapping[str, Budget]) -> tuple[LeftForLive, ...]:
    return tuple(
        LeftForLive(provider=each, limit=limit.name, amount=limit.amount, left=limit.reserve)
        for each in sorted(needs.least.requests)
        if each in budgets
        for limit in budgets[each].limits
        if limit.reserve
    )
