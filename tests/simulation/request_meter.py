"""A provider's own count of arriving requests, by its own clock: the reference for BUDGET.

A request is counted when the limiter grants it, and arrives a little later, or much later if the
network stalls. Whatever happened to it, to its process or to the limiter on the way, no window may
have more arrivals than the provider allows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from headgate.model.budget import Budget, to_ms
from headgate.testing.loop import SimulationLoop
from tests.simulation.deployment import START


class RequestMeter:
    """Counts the requests of one provider in each of its windows, which begin at fixed times."""

    def __init__(self, loop: SimulationLoop, budget: Budget) -> None:
        self._loop = loop
        self._budget = budget
        #: The arrivals by limit and number of the window.
        self._arrived: Counter[tuple[str, int]] = Counter()
        self.arrivals = 0

    @contextmanager
    def arriving(self, after_s: float) -> Iterator[None]:
        """Count a request that is sent now and arrives after a while, unless it is given up before.

        Whoever gives up closes the connection. A process that dies does not give up.
        """
        at = self._now + round(after_s * 1000)
        stretches = [(limit.name, at // (limit.seconds * 1000)) for limit in self._budget.limits]
        self.arrivals += 1
        self._arrived.update(stretches)
        try:
            yield
        except BaseException:
            if self._now < at:
                self.arrivals -= 1
                self._arrived.subtract(stretches)
            raise

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
