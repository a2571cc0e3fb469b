"""A provider's own count of arriving requests, by its own clock: the reference for BUDGET.

A request is counted when the limiter grants it, and arrives a little later. The budget's `guard_s`
covers that delay. A request that was granted earlier, because its process stalled meanwhile, may
arrive in a window that it was not counted in; that is no violation. That the limiter has lost its
counts is no excuse.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from headgate.model.budget import Answer, Budget, BudgetRequest, Granted, to_ms
from headgate.ports.limiter import Limiter
from headgate.simulation.deployment import START
from headgate.simulation.loop import SimulationLoop


class RequestMeter:
    """Counts the requests of one provider in each of its windows, which begin at fixed times."""

    def __init__(self, loop: SimulationLoop, budget: Budget) -> None:
        self._loop = loop
        self._budget = budget
        #: When the last request of each task was granted.
        self._granted: dict[asyncio.Task[Any] | None, int] = {}
        #: The arrivals by limit and number of the window.
        self._arrived: Counter[tuple[str, int]] = Counter()
        self.arrivals = 0

    def granted(self, grant: Granted) -> None:
        """Note that the running task may send a request."""
        self._granted[asyncio.current_task()] = grant.at_ms

    def arrive(self) -> None:
        """Count the request of the running task."""
        now = self._now
        self.arrivals += 1
        granted = self._granted.pop(asyncio.current_task(), now)
        late = now - granted > self._budget.guard_s * 1000
        for limit in self._budget.limits:
            window_ms = limit.seconds * 1000
            if not late or granted // window_ms == now // window_ms:
                self._arrived[limit.name, now // window_ms] += 1

    def counts(self) -> Mapping[str, int]:
        """Return the use of each window, as the provider reports it in its responses."""
        now = self._now
        return {
            limit.name: self._arrived[limit.name, now // (limit.seconds * 1000)]
            for limit in self._budget.limits
        }

    def findings(self) -> Iterable[str]:
        """Return the windows in which more requests arrived than the provider allows."""
        amounts = {limit.name: limit.amount for limit in self._budget.limits}
        for (name, window), count in sorted(self._arrived.items()):
            if count > amounts[name]:
                yield (
                    f"BUDGET: {self._budget.source} had {count} requests in window {window} of "
                    f"{name}, and allows {amounts[name]}"
                )

    @property
    def _now(self) -> int:
        return to_ms(START) + int(self._loop.time() * 1000)


class MeteredLimiter:
    """A limiter that reports its grants to the provider's meter."""

    def __init__(self, limiter: Limiter, meter: RequestMeter) -> None:
        self._limiter = limiter
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._limiter, name)

    async def acquire(self, budget: Budget, ask: BudgetRequest, *, grant_id: str) -> Answer:
        """Acquire a request, and report the grant."""
        answer = await self._limiter.acquire(budget, ask, grant_id=grant_id)
        if isinstance(answer, Granted):
            self._meter.granted(answer)
        return answer
