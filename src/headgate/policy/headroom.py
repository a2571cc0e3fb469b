"""Headroom: how far a limiter that can lose its counts may grant before the database knows of it.

The database has a ledger of its own for each of the limiter's. Before the limiter grants more than
its headroom in a window, the headroom is raised there, by a few requests at once. So whatever the
limiter loses, the database knows the most that can have been granted; a ledger that the limiter
begins anew starts from that. A short window needs no headroom: everybody waits until it is over.
"""

from collections.abc import Mapping, Sequence

import msgspec

from headgate.model.budget import Bucket, Budget, BudgetRequest, Ledger, Limit, Refusals, Scope
from headgate.policy import windows
from headgate.policy.spending import forget_old

#: A headroom is raised by what the limit allows in this time on average, and at least by one.
RAISED_FOR_S = 10


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch in which more requests are to be counted than the headroom covers."""

    scope: Scope
    #: The id of the limiter's ledger.
    ledger_id: str
    limit: str
    place: int
    #: The requests that are counted there, and how many are to come.
    used: int
    times: int


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """What the database allows in one stretch, for the ledger of that id."""

    scope: Scope
    ledger_id: str
    limit: str
    place: int
    #: How many may have been granted by ledgers that were lost.
    before: int
    amount: int


def raised_by(limit: Limit) -> int:
    """The number of requests by which a headroom is raised; 0 if the limit needs none."""
    if windows.is_short(limit):
        return 0
    return max(1, limit.amount * RAISED_FOR_S // limit.seconds)


def shortages(
    budget: Budget,
    ledgers: Mapping[Scope, Ledger],
    request: BudgetRequest,
    now: int,
    *,
    times: int = 1,
) -> list[Shortage]:
    """The stretches whose headroom does not cover so many requests more."""
    guard = round(budget.guard_s * 1000)
    found = []
    for limit in budget.limits_for(request.kind):
        if windows.is_short(limit):
            continue
        ledger = ledgers[limit.scope]
        buckets = ledger.windows.get(limit.name, {})
        for place in windows.stretches_charged(limit, now, guard):
            bucket = buckets.get(str(place)) or Bucket()
            if bucket.used + times > bucket.headroom:
                shortage = Shortage(
                    scope=limit.scope,
                    ledger_id=ledger.id,
                    limit=limit.name,
                    place=place,
                    used=bucket.used,
                    times=times,
                )
                found.append(shortage)
    return found


def extend(
    budget: Budget, kept: Mapping[Scope, Ledger], lacking: Sequence[Shortage], now: int
) -> list[Headroom]:
    """Raise the headroom in the database's ledgers; returns all that the limiter has to know.

    In these ledgers `used` is the headroom: the most that can have been granted.
    """
    given: dict[tuple[Scope, str, int], Headroom] = {}
    limits = {limit.name: limit for limit in budget.limits}
    for each in lacking:
        ledger, limit = kept[each.scope], limits[each.limit]
        if ledger.id != each.ledger_id:
            _note_loss(ledger, each.ledger_id)
        buckets = ledger.windows.setdefault(limit.name, {})
        forget_old(limit, buckets, now, round(budget.guard_s * 1000))
        bucket = buckets.setdefault(str(each.place), Bucket())
        needed = max(each.used, bucket.before) + each.times
        # Whoever asks at the same time as others wants room beside theirs.
        begin = max(bucket.used, needed - each.times)
        raised = min(begin + max(each.times, raised_by(limit)), limit.amount)
        bucket.used = max(bucket.used, needed, raised)
        for key, some in buckets.items():
            if some.before or int(key) == each.place:
                given[each.scope, each.limit, int(key)] = Headroom(
                    scope=each.scope,
                    ledger_id=each.ledger_id,
                    limit=each.limit,
                    place=int(key),
                    before=some.before,
                    amount=some.used,
                )
    return list(given.values())


def apply(ledgers: Mapping[Scope, Ledger], given: Sequence[Headroom]) -> None:
    """Take headroom over into the limiter's ledgers, unless it has lost them meanwhile."""
    for each in given:
        ledger = ledgers[each.scope]
        if ledger.id == each.ledger_id:
            buckets = ledger.windows.setdefault(each.limit, {})
            bucket = buckets.setdefault(str(each.place), Bucket())
            bucket.used = max(bucket.used, each.before)
            bucket.headroom = max(bucket.headroom, each.amount)


def recall(ledger: Ledger, kept: Ledger) -> None:
    """Show what the database knows in a ledger of the limiter, for a report."""
    lost = ledger.id != kept.id
    for name, known in kept.windows.items():
        buckets = ledger.windows.setdefault(name, {})
        for key, bucket in known.items():
            mine = buckets.setdefault(key, Bucket())
            mine.used = max(mine.used, bucket.used if lost else bucket.before)
    for hour, refusals in kept.refusals.items():
        known_here = ledger.refusals.setdefault(hour, Refusals())
        known_here.by_provider = max(known_here.by_provider, refusals.by_provider)


def _note_loss(kept: Ledger, new_id: str) -> None:
    """The limiter has begun another ledger: everything that was allowed may have been used."""
    kept.id = new_id
    for buckets in kept.windows.values():
        for bucket in buckets.values():
            bucket.before = bucket.used
