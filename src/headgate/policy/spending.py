"""Spending of budgets: this module decides whether a request may be sent.

Every function takes the budget's ledgers, by scope, and changes them; a limiter calls it under a
lock. `limits/spend.lua` does the same inside Redis, and a test compares the ledgers of the two.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from headgate.model.budget import (
    Answer,
    Bucket,
    Budget,
    BudgetRequest,
    BudgetUse,
    Exhausted,
    Granted,
    Ledger,
    Limit,
    RefusalReason,
    Refusals,
    Scope,
    WindowUse,
    from_ms,
)
from headgate.model.job import Lane
from headgate.policy import in_flight, windows

#: While all slots are in use, a request asks again after this time at the latest.
SLOT_LOOK_MS = 500
HOUR_MS = 3_600_000
#: The longest wait that we accept from a provider.
CLOSED_MS_MAX = 25 * HOUR_MS
#: How long a 429 closes a rolling window if the provider does not say so.
CLOSED_ROLLING_MS = 60_000
#: The share of each limit that one process may spend while the limiter is unreachable.
LOCAL_SHARE = 0.1

Ledgers = Mapping[Scope, Ledger]


class _Refusal(NamedTuple):
    until: int
    reason: RefusalReason
    scope: Scope
    limit: str | None = None


def take(
    budget: Budget, ledgers: Ledgers, request: BudgetRequest, now: int, grant_id: str
) -> Answer:
    """Grant the request and count it in every window, or refuse it and count nothing."""
    refusal = refuse(budget, ledgers, request, now)
    return grant(budget, ledgers, request, now, grant_id) if refusal is None else refusal


def refuse(budget: Budget, ledgers: Ledgers, request: BudgetRequest, now: int) -> Exhausted | None:
    """Refuse the request and count nothing but the refusal; None if it may be granted."""
    refusals = [
        *_closed(budget, ledgers, now),
        *_slots(budget, ledgers, now),
        *_pace(budget, ledgers, request, now),
    ]
    for limit in budget.limits_for(request.kind):
        refusals += _windows(budget, ledgers, request, limit, now)
    if not refusals:
        return None
    worst = max(refusals, key=lambda each: each.until)
    _count_refusal(ledgers[worst.scope], worst.reason, now)
    return Exhausted(
        reason=worst.reason,
        until=from_ms(worst.until),
        wait_s=(worst.until - now) / 1000,
        limit=worst.limit,
    )


def grant(
    budget: Budget, ledgers: Ledgers, request: BudgetRequest, now: int, grant_id: str
) -> Granted:
    """Grant a request that may be granted, and count it in every window."""
    charge(budget, ledgers, request, now)
    if budget.slots is not None:
        ledgers[budget.slots_scope].slots[grant_id] = now + _ms(budget.slot_lease_s)
    remaining, resets = _tightest(budget, ledgers, request, now)
    return Granted(
        id=grant_id,
        at_ms=now,
        remaining=remaining,
        resets_at=None if resets is None else from_ms(resets),
    )


def charge(budget: Budget, ledgers: Ledgers, request: BudgetRequest, now: int) -> None:
    """Count a request that was sent or will be, whatever is left."""
    guard = _ms(budget.guard_s)
    for limit in budget.limits_for(request.kind):
        buckets = ledgers[limit.scope].windows.setdefault(limit.name, {})
        forget_old(limit, buckets, now, guard)
        for place in windows.stretches_charged(limit, now, guard):
            bucket = buckets.setdefault(str(place), Bucket())
            bucket.used += 1
            bucket.hot += request.lane is Lane.HOT
            bucket.cold += request.lane is Lane.COLD
            bucket.retries += request.retry
    paced = paced_limit(budget, request.kind)
    if paced is not None and request.lane is Lane.COLD:
        buckets = ledgers[paced.scope].windows[paced.name]
        place = windows.stretches_charged(paced, now, 0)[-1]
        left = paced.amount - windows.used_in_window(paced, buckets, place, guard)
        least = _ms(budget.pace_s_min)
        ledgers[paced.scope].next_cold = now + windows.pace_ms(paced, now, left, least_ms=least)


def release(
    budget: Budget, ledgers: Ledgers, request: BudgetRequest, granted: Granted, now: int
) -> None:
    """Release the slot of a request that has ended, and count it where it may have arrived late."""
    if budget.slots is not None:
        ledgers[budget.slots_scope].slots.pop(granted.id, None)
    limits = budget.limits_for(request.kind)
    in_flight.count_late(budget, ledgers, limits, granted.at_ms, now)


def observe(
    budget: Budget, ledgers: Ledgers, granted_at: int, now: int, counts: Mapping[str, int]
) -> None:
    """Raise our counts to the provider's own, by the limit's name; they never go down.

    Near the edge of two windows, the counts of an answer go to the older one, because the count of
    a full window must not close the next.
    """
    guard = _ms(budget.guard_s)
    for limit in budget.limits:
        theirs = counts.get(limit.name)
        if theirs is None:
            continue
        buckets = ledgers[limit.scope].windows.setdefault(limit.name, {})
        forget_old(limit, buckets, now, guard)
        place = windows.stretches_charged(limit, granted_at, guard)[0]
        if limit.rolling:
            place = windows.stretches_charged(limit, now, guard)[0]
        bucket = buckets.setdefault(str(place), Bucket())
        bucket.theirs = max(bucket.theirs, theirs)
        bucket.used += max(0, theirs - windows.used_in_window(limit, buckets, place, guard))


def close_budget(
    budget: Budget,
    ledgers: Ledgers,
    kind: str,
    now: int,
    retry_after_s: float | None,
    limit_name: str | None = None,
) -> int:
    """Close the budget for everybody, because the provider answered 429; returns until when.

    If the provider does not say how long, the budget is closed until the end of the limit's window.
    The limit is the one that the provider names, if the budget has it; else the longest one that is
    spent by our count or, if none is, the shortest.
    """
    guard = _ms(budget.guard_s)
    limits = budget.limits_for(kind)
    chosen = [limit for limit in limits if limit.name == limit_name] or [
        limit for limit in limits if _is_spent(limit, ledgers, now, guard)
    ]
    limit = max(chosen, key=_by_length) if chosen else min(limits, key=_by_length, default=None)
    if retry_after_s is not None:
        wait = min(max(_ms(retry_after_s), 1000), CLOSED_MS_MAX)
    elif limit is None or limit.rolling:
        wait = CLOSED_ROLLING_MS
    else:
        wait = windows.window_ends(limit, now) + guard - now
    if not ledgers:
        # A budget without limits has no ledger in which it could be closed.
        return now + wait
    ledger = ledgers[budget.scopes[0] if limit is None else limit.scope]
    ledger.closed_until = max(ledger.closed_until, now + wait)
    hour_of(ledger, now).by_provider += 1
    return ledger.closed_until


def use(
    budget: Budget, ledgers: Ledgers, now: int, *, connection_id: str | None = None
) -> BudgetUse:
    """The use of the budget, for the scopes whose ledgers are given."""
    guard = _ms(budget.guard_s)
    hours = [
        refusals
        for ledger in ledgers.values()
        for hour, refusals in ledger.refusals.items()
        if int(hour) > now // HOUR_MS - 24
    ]
    next_cold = max((ledger.next_cold for ledger in ledgers.values()), default=0)
    closed = max((ledger.closed_until for ledger in ledgers.values()), default=0)
    slots = ledgers[budget.slots_scope].slots if budget.slots_scope in ledgers else {}
    return BudgetUse(
        source=budget.source,
        connection_id=connection_id,
        windows=tuple(
            _window_use(budget, limit, ledgers[limit.scope], now, guard)
            for limit in budget.limits
            if limit.scope in ledgers
        ),
        closed_until=from_ms(closed) if closed > now else None,
        next_cold_at=from_ms(next_cold) if next_cold > now else None,
        slots_used=sum(until > now for until in slots.values()),
        slots=budget.slots,
        refused_24h={
            reason.value: sum(getattr(each, reason.value) for each in hours)
            for reason in RefusalReason
        },
        answers_429_24h=sum(each.by_provider for each in hours),
    )


def paced_limit(budget: Budget, kind: str) -> Limit | None:
    """The limit that sets the pace of backfills: the shortest one; None if they are not paced."""
    return min(budget.limits_for(kind), key=_by_length, default=None) if budget.paced else None


@cache
def local_share(budget: Budget) -> Budget:
    """The budget of one process on its own: a tenth of each limit, without reserve or pace."""
    limits = [
        Limit(
            max(1, int(limit.amount * LOCAL_SHARE)),
            per=limit.per,
            only=limit.only,
            scope=limit.scope,
            rolling=limit.rolling,
        )
        for limit in budget.limits
    ]
    return Budget(budget.source, limits, guard_s=budget.guard_s, paced=False)


# ---- reasons for a refusal ---------------------------------------------------------------------


def _closed(budget: Budget, ledgers: Ledgers, now: int) -> Iterator[_Refusal]:
    for scope in budget.scopes:
        if ledgers[scope].closed_until > now:
            yield _Refusal(ledgers[scope].closed_until, RefusalReason.CLOSED, scope)


def _slots(budget: Budget, ledgers: Ledgers, now: int) -> Iterator[_Refusal]:
    if budget.slots is None:
        return
    in_flight.end_lost(budget, ledgers, now)
    slots = ledgers[budget.slots_scope].slots
    if len(slots) >= budget.slots:
        until = min(now + SLOT_LOOK_MS, *slots.values())
        yield _Refusal(until, RefusalReason.SLOTS, budget.slots_scope)


def _pace(budget: Budget, ledgers: Ledgers, request: BudgetRequest, now: int) -> Iterator[_Refusal]:
    limit = paced_limit(budget, request.kind)
    if limit is not None and request.lane is Lane.COLD and ledgers[limit.scope].next_cold > now:
        yield _Refusal(ledgers[limit.scope].next_cold, RefusalReason.PACE, limit.scope, limit.name)


def _windows(
    budget: Budget, ledgers: Ledgers, request: BudgetRequest, limit: Limit, now: int
) -> Iterator[_Refusal]:
    guard = _ms(budget.guard_s)
    ledger = ledgers[limit.scope]
    buckets = ledger.windows.get(limit.name, {})
    for place in windows.stretches_charged(limit, now, guard):
        room = limit.amount - windows.used_in_window(limit, buckets, place, guard) - 1
        reserved = 0
        if request.lane is Lane.COLD:
            reserved = windows.reserve(limit, buckets, place, now, decays=budget.reserve_decay)
        if room < 0:
            until = windows.room_at(limit, buckets, place, 1 + reserved, guard)
            yield _Refusal(until, RefusalReason.SPENT, limit.scope, limit.name)
            continue
        if _is_unknown(limit, ledger, place, now, guard):
            lost = ledger.born if limit.rolling else place * windows.length_ms(limit)
            known_at = lost + windows.length_ms(limit) + guard
            yield _Refusal(known_at, RefusalReason.UNKNOWN, limit.scope, limit.name)
        if room < reserved:
            until = windows.room_at(limit, buckets, place, 1 + reserved, guard)
            if budget.reserve_decay and not limit.rolling:
                until = min(until, windows.reserve_frees_at(limit, place, now, room))
            yield _Refusal(until, RefusalReason.RESERVE, limit.scope, limit.name)
        elif room - in_flight.from_before(budget, ledgers, limit, place) < reserved:
            # Those end soon; then it is known which limits count them.
            yield _Refusal(now + SLOT_LOOK_MS, RefusalReason.SLOTS, limit.scope, limit.name)


def _is_unknown(limit: Limit, ledger: Ledger, place: int, now: int, guard: int) -> bool:
    """Whether requests of a ledger that was lost may have used the window.

    Of windows that are not short, the database knows how many those are: `policy/headroom.py`.
    """
    if not windows.is_short(limit):
        return False
    if limit.rolling:
        return now < ledger.born + windows.length_ms(limit) + guard
    return place * windows.stretch_ms(limit) - guard < ledger.born


# ---- small parts -------------------------------------------------------------------------------


def _tightest(
    budget: Budget, ledgers: Ledgers, request: BudgetRequest, now: int
) -> tuple[int | None, int | None]:
    guard = _ms(budget.guard_s)
    left = [
        (_left(limit, ledgers[limit.scope], now, guard), windows.window_ends(limit, now))
        for limit in budget.limits_for(request.kind)
    ]
    return min(left, default=(None, None))


def _left(limit: Limit, ledger: Ledger, now: int, guard: int) -> int:
    place = windows.stretches_charged(limit, now, 0)[-1]
    buckets = ledger.windows.get(limit.name, {})
    return max(0, limit.amount - windows.used_in_window(limit, buckets, place, guard))


def _is_spent(limit: Limit, ledgers: Ledgers, now: int, guard: int) -> bool:
    return _left(limit, ledgers[limit.scope], now, guard) <= 0


def _window_use(budget: Budget, limit: Limit, ledger: Ledger, now: int, guard: int) -> WindowUse:
    buckets = ledger.windows.get(limit.name, {})
    place = windows.stretches_charged(limit, now, 0)[-1]
    first = windows.oldest_counted(limit, place, guard) if limit.rolling else place
    counted = [bucket for key, bucket in buckets.items() if first <= int(key) <= place]
    their_count = max((bucket.theirs for bucket in counted), default=0)
    unknown = _is_unknown(limit, ledger, place, now, guard)
    return WindowUse(
        limit=limit.name,
        scope=limit.scope,
        amount=limit.amount,
        used=windows.used_in_window(limit, buckets, place, guard),
        remaining=0 if unknown else _left(limit, ledger, now, guard),
        reserved=windows.reserve(limit, buckets, place, now, decays=budget.reserve_decay),
        resets_at=from_ms(windows.window_ends(limit, now)),
        hot=sum(bucket.hot for bucket in counted),
        cold=sum(bucket.cold for bucket in counted),
        retries=sum(bucket.retries for bucket in counted),
        theirs=their_count or None,
        unknown=unknown,
    )


def forget_old(limit: Limit, buckets: dict[str, Bucket], now: int, guard: int) -> None:
    """Drop the stretches that are no longer needed."""
    oldest = windows.oldest_kept(limit, now, guard)
    for key in [key for key in buckets if int(key) < oldest]:
        del buckets[key]


def _count_refusal(ledger: Ledger, reason: RefusalReason, now: int) -> None:
    hour = hour_of(ledger, now)
    setattr(hour, reason.value, getattr(hour, reason.value) + 1)


def hour_of(ledger: Ledger, now: int) -> Refusals:
    """The refusals of the present hour."""
    hour = now // HOUR_MS
    for key in [key for key in ledger.refusals if int(key) <= hour - 25]:
        del ledger.refusals[key]
    return ledger.refusals.setdefault(str(hour), Refusals())


def _by_length(limit: Limit) -> int:
    return limit.seconds


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
