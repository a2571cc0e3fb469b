"""Requests on their way when a window ends: until when they are sent, and where they count.

A request counts in the window in which it is granted. If it is not sent before that window ends, it
is not sent at all. If it was sent and not answered by then, nobody knows in which window it
arrived: while it has a slot, it takes room in the new window too, and when it ends it is counted
there. If nobody tells that it has ended, because its process is gone, it ends with its slot.
"""

from collections.abc import Iterable, Mapping

from headgate.model.budget import Bucket, Budget, Ledger, Limit, Scope
from headgate.policy import windows


def send_within_s(budget: Budget, kind: str, granted_at: int) -> float:
    """The seconds after its grant in which a request of that kind must be sent.

    Half of the guard band is for the way to the provider and for its clock.
    """
    guard = round(budget.guard_s * 1000)
    ends = [_send_by(limit, granted_at, guard) for limit in budget.limits_for(kind)]
    if budget.slots is not None:
        # Half of the lease is for the answer: the slot must not end before the request does.
        ends.append(granted_at + round(budget.slot_lease_s * 500))
    return (min(ends) - granted_at) / 1000 if ends else float("inf")


def _send_by(limit: Limit, granted_at: int, guard: int) -> int:
    if limit.rolling:
        # Once it is answered it counts at that time; till then it must not leave the window.
        return granted_at + windows.length_ms(limit) // 2
    last = windows.stretches_charged(limit, granted_at, guard)[-1]
    return (last + 1) * windows.length_ms(limit) - guard // 2


def from_before(budget: Budget, ledgers: Mapping[Scope, Ledger], limit: Limit, place: int) -> int:
    """The number of requests with a slot that do not count in the window yet, and may arrive in it.

    Their kinds are not known, so all of them count.
    """
    if budget.slots is None or limit.rolling or limit.scope is not budget.slots_scope:
        return 0
    guard, lease = round(budget.guard_s * 1000), round(budget.slot_lease_s * 1000)
    begin = place * windows.length_ms(limit)
    slots = ledgers[budget.slots_scope].slots
    return sum(until - lease + guard < begin for until in slots.values())


def count_late(
    budget: Budget,
    ledgers: Mapping[Scope, Ledger],
    limits: Iterable[Limit],
    granted_at: int,
    ended_at: int,
) -> None:
    """Count a request that has ended where it may have arrived, if that is after its own window."""
    guard = round(budget.guard_s * 1000)
    if ended_at - granted_at <= guard:
        return
    for limit in limits:
        counted = windows.stretches_charged(limit, granted_at, guard)
        place = windows.stretches_charged(limit, ended_at, 0)[-1]
        if place <= counted[-1]:
            continue
        buckets = ledgers[limit.scope].windows.setdefault(limit.name, {})
        before = buckets.get(str(counted[0]))
        if limit.rolling and before is not None and before.moved < before.used:
            # A rolling window has both stretches in it: the request moves from one to the other.
            before.moved += 1
        buckets.setdefault(str(place), Bucket()).used += 1


def end_lost(budget: Budget, ledgers: Mapping[Scope, Ledger], now: int) -> None:
    """Free the slots whose leases are over, and count their requests, which nobody has ended.

    Their kinds are not known, so they count in all limits of the slots' scope.
    """
    lease = round(budget.slot_lease_s * 1000)
    slots = ledgers[budget.slots_scope].slots
    limits = [limit for limit in budget.limits if limit.scope is budget.slots_scope]
    for grant_id, until in [each for each in slots.items() if each[1] <= now]:
        del slots[grant_id]
        count_late(budget, ledgers, limits, until - lease, until)
