"""This module keeps the provider's own count of requests, which tests of rate budgets rely on.

A request counts against several windows at once, and is refused if any of them is spent. Nothing
that a client says can change the count.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.windows import Count, Gauge, Tally, Window, gauge_of

#: The key for a provider that counts per application, of which there is only one.
APPLICATION = "application"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the meter when a request arrived, including that request."""

    #: The windows that were already spent; if there are any, the request is refused.
    beyond: tuple[str, ...]
    used: dict[str, int]
    limits: dict[str, int]
    #: Whole seconds until each window frees up, rounded up.
    resets_in_s: dict[str, int]


class Meter:
    """Counts requests per key in a set of windows."""

    def __init__(self, clock: Clock, windows: Sequence[Window]) -> None:
        """Keep time by `clock`; no two windows may share a name."""
        self.windows = {window.name: window for window in windows}
        assert len(self.windows) == len(windows), "two windows share a name"
        self._clock = clock
        self._gauges: dict[tuple[str, str], Gauge] = {}
        self._overshoot: Counter[str] = Counter()

    def arrive(self, key: str = APPLICATION, *, windows: Collection[str] | None = None) -> Reading:
        """Count one request of `key` against these windows, or against all of them."""
        now = self._clock.now()
        gauges = [self._gauge(key, name) for name in self._names(windows)]
        beyond = {each.window.name for each in gauges if each.used(now) >= each.window.limit}
        for gauge in gauges:
            gauge.count(now, refused=bool(beyond), beyond=gauge.window.name in beyond)
        self._overshoot[key] += bool(beyond)
        reading = self.read(key)
        return msgspec.structs.replace(
            reading, beyond=tuple(name for name in self.windows if name in beyond)
        )

    def read(self, key: str = APPLICATION) -> Reading:
        """All windows of `key` as they are now, without counting anything."""
        now = self._clock.now()
        gauges = {name: self._gauge(key, name) for name in self.windows}
        return Reading(
            beyond=(),
            used={name: gauge.used(now) for name, gauge in gauges.items()},
            limits={name: gauge.window.limit for name, gauge in gauges.items()},
            resets_in_s={
                name: math.ceil((gauge.resets_at(now) - now).total_seconds())
                for name, gauge in gauges.items()
            },
        )

    def tallies(self, window: str, key: str = APPLICATION) -> list[Tally]:
        """The counts of each period of that window, oldest first."""
        return list(self._gauge(key, window).history)

    def overshoot(self, key: str | None = None, *, window: str | None = None) -> int:
        """How many requests arrived beyond a limit; None means all keys, or any window."""
        if window is None:
            return self._overshoot.total() if key is None else self._overshoot[key]
        return sum(
            gauge.beyond
            for (of, name), gauge in self._gauges.items()
            if name == window and key in (None, of)
        )

    def stats(self) -> JsonObject:
        """The latest tally of every key and window, and the overshoot."""
        keys = sorted({key for key, _ in self._gauges})
        return {
            "overshoot": self.overshoot(),
            "keys": {
                key: {
                    name: tallies[-1]
                    for name in self.windows
                    if (tallies := self.tallies(name, key))
                }
                for key in keys
            },
        }

    def counts(self) -> list[Count]:
        """What is counted in the present period of each key and window."""
        return [
            Count(
                key=key,
                window=window,
                tally=gauge.history[-1],
                beyond=gauge.beyond,
                times=gauge.times,
            )
            for (key, window), gauge in self._gauges.items()
            if gauge.history
        ]

    def restore(self, counts: Iterable[Count], overshoot: Mapping[str, int]) -> None:
        """Go on from these counts."""
        self._overshoot = Counter(overshoot)
        for each in counts:
            self._gauge(each.key, each.window).restore(each.tally, each.beyond, each.times)

    @property
    def overshoots(self) -> Mapping[str, int]:
        """How many requests arrived beyond a limit, by key."""
        return self._overshoot

    def reset(self) -> None:
        """Forget everything that was counted."""
        self._gauges.clear()
        self._overshoot.clear()

    def _names(self, windows: Collection[str] | None) -> Collection[str]:
        return self.windows if windows is None else windows

    def _gauge(self, key: str, window: str) -> Gauge:
        gauge = self._gauges.get((key, window))
        if gauge is None:
            gauge = self._gauges[key, window] = gauge_of(self.windows[window])
        return gauge
