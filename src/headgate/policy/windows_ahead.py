"""The rest of a job, played forward: how long it takes by its needs and the providers' limits.

The play goes unit by unit (a day, a record) through the windows ahead, as the engine will: requests
one after another at the provider's speed, not closer than the pace of the shortest limit, and with
a sleep where a window is spent. So a limit matters only where it is the bottleneck. Others who
share a limit take as much of it each. Live work takes its part of every window, by its present
rate. An outage is not foreseen.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from headgate.model.budget import Budget, BudgetUse, Limit, Scope, WindowUse, to_ms
from headgate.model.pace import RequestCounts
from headgate.policy.spending import paced_limit
from headgate.policy.windows import BURST_SHARE, ROLLING_PARTS

#: The most units that are played one by one; of a longer job, each stands for several.
STEPS_MAX = 150
#: The number of parts in which the requests of a rolling window leave it.
SENT_PARTS = 10
#: The rate of live work is measured over a stretch of at least this length.
LIVE_S_MIN = 60.0


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What one unit of a job needs."""

    #: Seconds at each provider, without waits for its budget.
    work_s: Mapping[str, float]
    requests: RequestCounts = {}
    #: The other seconds.
    own_s: float = 0.0

    def times(self, factor: float) -> "Needs":
        """The needs of so many units."""
        return Needs(
            work_s={name: factor * each for name, each in self.work_s.items()},
            requests={
                name: {kind: factor * count for kind, count in kinds.items()}
                for name, kinds in self.requests.items()
            },
            own_s=factor * self.own_s,
        )


class LimitsAhead(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that a job meets, and who meets them with it."""

    budgets: Mapping[str, Budget]
    #: How much of each is used, by provider; one that is missing counts as unused.
    uses: Mapping[str, BudgetUse] = {}
    #: The units that each of the other backfills at these providers has left.
    others: Sequence[float] = ()
    #: Whether the job is live work itself: it meets no pace and no reserve, and what was counted
    #: as live is mostly its own.
    hot: bool = False


def play_s(
    units: float, needs: Needs, limits: LimitsAhead, *, start_s: float, others: float, live: float
) -> float:
    """The seconds that so many units take from `start_s`, which is in seconds since 1970.

    `others` and `live` are how much of the usual the others and live work take.
    """
    return _Play(needs, limits, start_s=start_s, others=others, live=live).run(units)


class _Window:
    """One limit's window, as it will be used."""

    def __init__(
        self,
        limit: Limit,
        use: WindowUse | None,
        start_s: float,
        live_rate: float,
        *,
        reserve: int,
        decays: bool,
    ) -> None:
        self.limit = limit
        self._reserve = float(reserve)
        self._length_s = float(limit.seconds)
        self._decays = decays and bool(reserve) and not limit.rolling
        self._live_rate = live_rate
        self._counted_s = start_s
        self._used = 0.0
        #: The requests in a rolling window, the oldest first.
        self._sent: deque[tuple[float, float]] = deque()
        self.ends_s = (start_s // self._length_s + 1) * self._length_s
        if use is not None and not use.unknown and to_ms(use.resets_at) / 1000 > start_s:
            self._used = float(use.used)
            # Those in a rolling window were probably sent one after another.
            part = self._used / SENT_PARTS
            for number in range(SENT_PARTS if limit.rolling else 0):
                age_s = self._length_s * (1 - (number + 0.5) / SENT_PARTS)
                self._sent.append((start_s - age_s, part))

    def roll(self, at_s: float) -> None:
        """Forget what is no longer in the window."""
        if self.limit.rolling:
            # Live requests leave it as fast as they come.
            self._counted_s = max(self._counted_s, at_s - self._length_s)
            while self._sent and self._sent[0][0] + self._length_s <= at_s:
                self._used = max(0.0, self._used - self._sent.popleft()[1])
        elif at_s >= self.ends_s:
            passed = 1 + (at_s - self.ends_s) // self._length_s
            self.ends_s += passed * self._length_s
            self._counted_s, self._used = self.ends_s - self._length_s, 0.0

    def room(self, at_s: float) -> float:
        """How many requests the job may send now."""
        reserve = self._reserve
        if self._decays:
            burst = ceil(self.limit.amount * BURST_SHARE)
            share_left = (self.ends_s - at_s) / self._length_s
            reserve = min(reserve, max(burst, reserve * share_left))
        room = self._left(at_s) - reserve
        # However busy live work is, a new window lets something through: so the play ends.
        return max(room, 1.0) if self._used == 0 else room

    def frees_s(self, at_s: float, guard_s: float) -> float:
        """When a window without room has some again."""
        if self.limit.rolling:
            return self._sent[0][0] + self._length_s if self._sent else at_s + self._length_s
        spare = self._left(at_s) - 1
        if self._decays and spare >= ceil(self.limit.amount * BURST_SHARE):
            shrunk_s = self.ends_s - spare / self._reserve * self._length_s
            return min(self.ends_s, max(shrunk_s, at_s + self._length_s / ROLLING_PARTS))
        return self.ends_s + guard_s

    def take(self, requests: float, at_s: float) -> None:
        """Count requests of backfills."""
        self._used += requests
        if self.limit.rolling:
            self._sent.append((at_s, requests))

    def pace_s(self, at_s: float, least_s: float) -> float:
        """The shortest time between two requests of backfills."""
        if self.limit.rolling:
            return max(least_s, self._length_s / self.limit.amount)
        return max(least_s, (self.ends_s - at_s) / max(1.0, self._left(at_s)))

    def _left(self, at_s: float) -> float:
        return self.limit.amount - self._used - self._live_rate * (at_s - self._counted_s)


class _Account:
    """One provider's limits in the play."""

    def __init__(
        self, budget: Budget, use: BudgetUse | None, start_s: float, live: float, *, hot: bool
    ) -> None:
        self.budget = budget
        self._hot = hot
        self.opens_s = start_s
        if use is not None and use.closed_until is not None:
            self.opens_s = max(start_s, to_ms(use.closed_until) / 1000)
        found = {each.limit: each for each in use.windows} if use is not None else {}
        self._windows = {
            limit.name: _Window(
                limit,
                found.get(limit.name),
                start_s,
                0.0 if hot else live * _live_rate(limit, budget, found, start_s),
                reserve=0 if hot else limit.reserve,
                decays=budget.reserve_decay,
            )
            for limit in budget.limits
        }
        #: The windows in which each kind counts, and the one that sets its pace.
        self._of_kind: dict[str, tuple[list[_Window], _Window | None]] = {}
        #: When the next request may be sent, by the ledger that sets the pace.
        self._next_s = dict.fromkeys(Scope, 0.0)

    def send(
        self, kind: str, count: int, at_s: float, gap_s: float, sharing: float, stands_for: float
    ) -> tuple[float, float]:
        """When so many requests will be answered, and how long they slept for a window.

        Each stands for several in the windows; between two there is a gap at least.
        """
        slept_s = 0.0
        windows, paced = self._windows_of(kind)
        if self.budget.slots is not None and self.budget.slots_scope is Scope.APP:
            gap_s *= max(1.0, sharing / self.budget.slots)
        while count > 0:
            for each in windows:
                each.roll(at_s)
            spent = [each for each in windows if each.room(at_s) < 1]
            if spent:
                frees_s = max(each.frees_s(at_s, self.budget.guard_s) for each in spent)
                slept_s, at_s = slept_s + frees_s - at_s, frees_s
                continue
            rooms = [each.room(at_s) / _sharing(each, sharing) / stands_for for each in windows]
            some = max(1, min(count, int(min(rooms, default=count))))
            first_s, pace_s = at_s, 0.0
            if paced is not None:
                pace_s = paced.pace_s(at_s, self.budget.pace_s_min) * _sharing(paced, sharing)
                first_s = max(at_s, self._next_s[paced.limit.scope])
                last_s = first_s + (some - 1) * max(gap_s, pace_s)
                self._next_s[paced.limit.scope] = last_s + pace_s
            at_s = first_s + (some - 1) * max(gap_s, pace_s) + gap_s
            for each in windows:
                each.take(some * stands_for * _sharing(each, sharing), first_s)
            count -= some
        return at_s, slept_s

    def _windows_of(self, kind: str) -> tuple[list[_Window], _Window | None]:
        found = self._of_kind.get(kind)
        if found is None:
            paced = None if self._hot else paced_limit(self.budget, kind)
            found = self._of_kind[kind] = (
                [self._windows[limit.name] for limit in self.budget.limits_for(kind)],
                None if paced is None else self._windows[paced.name],
            )
        return found


class _Play:
    """One play."""

    def __init__(
        self, needs: Needs, limits: LimitsAhead, *, start_s: float, others: float, live: float
    ) -> None:
        self._needs = needs
        self._others = limits.others
        self._weight = others
        self._start_s = start_s
        self._accounts = {
            name: _Account(
                limits.budgets[name], limits.uses.get(name), start_s, live, hot=limits.hot
            )
            for name in needs.requests
            if name in limits.budgets
        }
        #: Parts of requests that are not sent yet, by provider and kind.
        self._parts: dict[tuple[str, str], float] = {}

    def run(self, units: float) -> float:
        at_s = self._start_s
        steps = ceil(min(units, STEPS_MAX))
        stands_for = units / steps if steps else 1.0
        for step in range(steps):
            done = step * stands_for
            sharing = 1 + self._weight * sum(left > done for left in self._others)
            after_s, slept_s = self._unit(at_s, sharing, stands_for)
            at_s += (after_s - at_s - slept_s) * stands_for + slept_s
        return at_s - self._start_s

    def _unit(self, at_s: float, sharing: float, stands_for: float) -> tuple[float, float]:
        """When one unit is done that begins at `at_s`, and how long it slept."""
        at_s += self._needs.own_s
        slept_s = 0.0
        for provider, work_s in self._needs.work_s.items():
            kinds = self._needs.requests.get(provider, {})
            requests = sum(kinds.values())
            account = self._accounts.get(provider)
            if account is None or not requests:
                at_s += work_s
                continue
            if account.opens_s > at_s:
                slept_s, at_s = slept_s + account.opens_s - at_s, account.opens_s
            for kind, count in kinds.items():
                whole = self._whole(provider, kind, count)
                at_s, more_s = account.send(
                    kind, whole, at_s, work_s / requests, sharing, stands_for
                )
                slept_s += more_s
        return at_s, slept_s

    def _whole(self, provider: str, kind: str, count: float) -> int:
        """The whole requests of this unit; the rest is left for the next one."""
        # Half a request is there from the beginning, so that the sum is rounded and not cut.
        total = self._parts.get((provider, kind), 0.5) + count
        self._parts[provider, kind] = total - int(total)
        return int(total)


def _sharing(window: _Window, sharing: float) -> float:
    return sharing if window.limit.scope is Scope.APP else 1.0


def _live_rate(limit: Limit, budget: Budget, found: Mapping[str, WindowUse], now_s: float) -> float:
    """Live requests in a second: by the longest stretch that was counted like this limit."""
    longest_s, rate = LIVE_S_MIN, 0.0
    for each in budget.limits:
        use = found.get(each.name)
        if use is None or (each.only, each.scope) != (limit.only, limit.scope):
            continue
        passed_s = float(each.seconds)
        if not each.rolling:
            passed_s -= to_ms(use.resets_at) / 1000 - now_s
        if passed_s >= longest_s:
            longest_s, rate = passed_s, use.hot / passed_s
    return rate
