"""This module counts the requests of one key in one rate-limit window, fixed or rolling.

`meter.py` decides which windows a request counts against, and which requests are refused.
"""

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

#: How many past windows are kept for tests: more than a year of quarter-hours.
HISTORY_MAX = 50_000


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A rate limit: at most `limit` requests in `seconds`."""

    name: str
    limit: int
    seconds: int
    #: True counts over the last `seconds`; False counts in periods that begin at whole multiples
    #: of `seconds` in UTC.
    rolling: bool = False
    #: Whether a refused request counts too.
    counts_refused: bool = True


class Tally(msgspec.Struct, kw_only=True):
    """The requests that arrived in one window; a rolling window has one tally for all time."""

    starts_at: datetime
    limit: int
    #: Requests counted against the limit; in a rolling window, as of the last request.
    used: int = 0
    #: Requests that were let in, even if the answer was an error.
    allowed: int = 0
    #: Requests that were refused, by this window or by another one of the same meter.
    refused: int = 0
    #: Requests that arrived when this window itself was spent.
    beyond: int = 0
    #: The highest value of `used` so far.
    peak: int = 0

    def count(self, *, used: int, refused: bool, beyond: bool) -> None:
        """Count one request."""
        self.used = used
        self.allowed += not refused
        self.refused += refused
        self.beyond += beyond
        self.peak = max(self.peak, used)


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted for a key in the present period of a window."""

    key: str
    window: str
    tally: Tally
    beyond: int
    #: The requests of a rolling window, one by one.
    times: Sequence[datetime] = ()


class Gauge(Protocol):
    """Counts one window for one key."""

    window: Window
    #: Oldest first; the last tally is the current one.
    history: deque[Tally]
    #: Requests beyond the limit since the beginning, also in windows no longer in `history`.
    beyond: int

    def used(self, now: datetime) -> int:
        """How many requests count against the limit now."""
        ...

    def resets_at(self, now: datetime) -> datetime:
        """When requests become free again: all in an aligned window, one in a rolling window."""
        ...

    def count(self, now: datetime, *, refused: bool, beyond: bool) -> None:
        """Count one request."""
        ...

    @property
    def times(self) -> Sequence[datetime]:
        """The requests that still count, where each leaves the window at a time of its own."""
        ...

    def restore(self, tally: Tally, beyond: int, times: Sequence[datetime]) -> None:
        """Go on from these counts."""
        ...


class AlignedGauge:
    """Counts in periods that begin at whole multiples of the window's seconds in UTC."""

    def __init__(self, window: Window) -> None:
        """Begin with nothing counted."""
        self.window = window
        self.history: deque[Tally] = deque(maxlen=HISTORY_MAX)
        self.beyond = 0

    def used(self, now: datetime) -> int:
        """The count of the period that `now` is in."""
        if self.history and self.history[-1].starts_at == self._start(now):
            return self.history[-1].used
        return 0

    def resets_at(self, now: datetime) -> datetime:
        """The start of the next period."""
        return self._start(now) + timedelta(seconds=self.window.seconds)

    def count(self, now: datetime, *, refused: bool, beyond: bool) -> None:
        """Count one request in the period that `now` is in."""
        start = self._start(now)
        if not self.history or self.history[-1].starts_at != start:
            self.history.append(Tally(starts_at=start, limit=self.window.limit))
        tally = self.history[-1]
        used = tally.used + (self.window.counts_refused or not refused)
        tally.count(used=used, refused=refused, beyond=beyond)
        self.beyond += beyond

    @property
    def times(self) -> Sequence[datetime]:
        """None: all leave the period together."""
        return ()

    def restore(self, tally: Tally, beyond: int, times: Sequence[datetime]) -> None:
        """Go on in the period of `tally`."""
        self.history.append(tally)
        self.beyond = beyond

    def _start(self, now: datetime) -> datetime:
        seconds = int(now.timestamp()) // self.window.seconds * self.window.seconds
        return datetime.fromtimestamp(seconds, UTC)


class RollingGauge:
    """Counts over the window's last seconds, at any moment."""

    def __init__(self, window: Window) -> None:
        """Begin with nothing counted."""
        self.window = window
        self.history: deque[Tally] = deque(maxlen=1)
        self.beyond = 0
        self._times: deque[datetime] = deque()

    def used(self, now: datetime) -> int:
        """The count of the window's last seconds."""
        horizon = now - timedelta(seconds=self.window.seconds)
        while self._times and self._times[0] <= horizon:
            self._times.popleft()
        return len(self._times)

    def resets_at(self, now: datetime) -> datetime:
        """When the oldest request leaves the window."""
        if self.used(now) == 0:
            return now
        return self._times[0] + timedelta(seconds=self.window.seconds)

    def count(self, now: datetime, *, refused: bool, beyond: bool) -> None:
        """Count one request."""
        if not self.history:
            self.history.append(Tally(starts_at=now, limit=self.window.limit))
        if self.window.counts_refused or not refused:
            self._times.append(now)
        self.history[-1].count(used=self.used(now), refused=refused, beyond=beyond)
        self.beyond += beyond

    @property
    def times(self) -> Sequence[datetime]:
        """The requests that still count."""
        return tuple(self._times)

    def restore(self, tally: Tally, beyond: int, times: Sequence[datetime]) -> None:
        """Go on with these requests in the window."""
        self.history.append(tally)
        self.beyond = beyond
        self._times.extend(times)


def gauge_of(window: Window) -> Gauge:
    """The gauge for this kind of window."""
    return RollingGauge(window) if window.rolling else AlignedGauge(window)
