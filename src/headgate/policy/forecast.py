"""How long a backfill takes: estimated from its cost and the limits, and later from its pace.

Both estimates are ranges, and neither foresees an outage.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil

from headgate.model.budget import ANY_KIND, Budget, BudgetUse, Limit, WindowUse
from headgate.model.forecast import DayCost, Finish, Forecast, LeftForLive, Requests
from headgate.model.job import Progress

#: The pace is computed from at least this many chunks, and from at most the last 100.
SAMPLES_MIN = 5
SAMPLES_MAX = 100
#: The last 10 chunks give the present pace; all of them give the pace with its waits.
SAMPLES_NOW = 10
#: The factors that widen a range, because no measurement stays exact.
SOONER, LATER = 0.9, 1.25


def forecast(
    days: int,
    days_held: int,
    costs: Sequence[DayCost],
    budgets: Mapping[str, Budget],
    uses: Mapping[str, BudgetUse],
    *,
    others: int,
    now: datetime,
) -> Forecast:
    """The forecast of reading `days`, while `others` backfills share the budgets."""
    providers = sorted({cost.provider for cost in costs})
    requests = tuple(
        Requests(
            provider=each,
            least=sum(ceil(days * cost.least) for cost in costs if cost.provider == each),
            most=sum(ceil(days * cost.most) for cost in costs if cost.provider == each),
        )
        for each in providers
    )
    limited = [each for each in providers if each in budgets]
    left = tuple(
        LeftForLive(provider=each, limit=limit.name, amount=limit.amount, left=limit.reserve)
        for each in limited
        for limit in budgets[each].limits
        if limit.reserve
    )
    finish = None
    if costs:
        spending = [(budgets[each], uses.get(each), _costs_of(costs, each)) for each in limited]
        least_s = max((_seconds(*each, days, 0, "least", now) for each in spending), default=0.0)
        most_s = max((_seconds(*each, days, others, "most", now) for each in spending), default=0.0)
        finish = Finish(
            earliest=now + timedelta(seconds=SOONER * least_s),
            latest=now + timedelta(seconds=LATER * most_s),
        )
    return Forecast(
        days=days, days_held=days_held, requests=requests, left_for_live=left, finish=finish
    )


def _costs_of(costs: Sequence[DayCost], provider: str) -> Sequence[DayCost]:
    return [cost for cost in costs if cost.provider == provider]


def _seconds(
    budget: Budget,
    use: BudgetUse | None,
    costs: Sequence[DayCost],
    days: int,
    others: int,
    which: str,
    now: datetime,
) -> float:
    """How long the backfill takes within one provider's limits: as long as the tightest allows."""
    windows = {window.limit: window for window in use.windows} if use else {}
    longest_s = 0.0
    for limit in budget.limits:
        counted = [cost for cost in costs if limit.only in (ANY_KIND, cost.kind)]
        requests = sum(days * float(getattr(cost, which)) for cost in counted)
        if requests:
            seconds = _seconds_within(limit, windows.get(limit.name), requests, 1 + others, now)
            longest_s = max(longest_s, seconds)
    if budget.paced:
        total = sum(days * float(getattr(cost, which)) for cost in costs)
        longest_s = max(longest_s, total * budget.pace_s_min)
    return longest_s


def _seconds_within(
    limit: Limit, window: WindowUse | None, requests: float, sharing: int, now: datetime
) -> float:
    """The time for so many requests: the rest of this window, then a share of each that follows."""
    share = (limit.amount - limit.reserve) / sharing
    if window is None:
        return requests / share * limit.seconds
    free = max(0, window.remaining - window.reserved) / sharing
    ends_s = max(0.0, (window.resets_at - now).total_seconds())
    if requests <= free:
        return requests / free * ends_s
    return ends_s + (requests - free) / share * limit.seconds


def eta(
    progress: Progress, done_at: Sequence[datetime], *, rests_until: datetime | None
) -> Finish | None:
    """When the job ends if it keeps its pace; None while too few chunks are done.

    `done_at` are the times at which its last chunks were done, the latest first.
    """
    if progress.total is None or len(done_at) < SAMPLES_MIN:
        return None
    left = progress.total - progress.done
    paces_s = [_pace_s(done_at[:SAMPLES_NOW]), _pace_s(done_at[:SAMPLES_MAX])]
    since = max(done_at[0], rests_until) if rests_until else done_at[0]
    return Finish(
        earliest=since + timedelta(seconds=SOONER * min(paces_s) * left),
        latest=since + timedelta(seconds=LATER * max(paces_s) * left),
    )


def _pace_s(done_at: Sequence[datetime]) -> float:
    return (done_at[0] - done_at[-1]).total_seconds() / (len(done_at) - 1)
