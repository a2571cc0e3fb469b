"""Rate-limit windows and how each kind counts: in fixed pieces of time, or over the last seconds.

Owns the counting of one window for one key. Which windows a request counts against, and who is
refused, is for `meter.py`.
"""

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

#: Past windows that are kept for the tests to look at: more than a year of quarter-hours.
HISTORY_MAX = 50_000


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """So many requests in so many seconds."""

    name: str
    limit: int
    seconds: int
    #: Over the last `seconds`, instead of in pieces that begin at whole multiples of them in UTC.
    rolling: bool = False
    #: Whether a request that is refused is counted all the same.
    counts_refused: bool = True


class Tally(msgspec.Struct, kw_only=True):
    """What arrived in one window; a rolling window has one tally for all time."""

    starts_at: datetime
    limit: int
    #: Counted against the limit; in a rolling window, by the last request.
    used: int = 0
    #: Answered, though perhaps with an error.
    allowed: int = 0
    #: Turned away, by this window or by another one of the same meter.
    refused: int = 0
    #: Arrived when this very window was spent.
    beyond: int = 0
    #: The highest that `used` ever was.
    peak: int = 0

    def count(self, *, used: int, refused: bool, beyond: bool) -> None:
        """Enter one request."""
        self.used = used
        self.allowed += not refused
        self.refused += refused
        self.beyond += beyond
        self.peak = max(self.peak, used)


class Gauge(Protocol):
    """One window's count for one key."""

    window: Window
    #: Oldest first; the last one is the present.
    history: deque[Tally]
    #: Requests beyond the limit since the beginning, in windows long forgotten too.
    beyond: int

    def used(self, now: datetime) -> int:
        """How much of the limit is spent."""
        ...

    def resets_at(self, now: datetime) -> datetime:
        """When something, or in an aligned window everything, becomes free again."""
        ...

    def count(self, now: datetime, *, refused: bool, beyond: bool) -> None:
        """Enter one request."""
        ...


class AlignedGauge:
    """Counts in pieces of time that begin at whole multiples of the window's seconds in UTC."""

    def __init__(self, window: Window) -> None:
        """Begin with nothing counted."""
        self.window = window
        self.history: deque[Tally] = deque(maxlen=HISTORY_MAX)
        self.beyond = 0

    def used(self, now: datetime) -> int:
        """The count of the piece that `now` is in."""
        if self.history and self.history[-1].starts_at == self._start(now):
            return self.history[-1].used
        return 0

    def resets_at(self, now: datetime) -> datetime:
        """The start of the next piece."""
        return self._start(now) + timedelta(seconds=self.window.seconds)

    def count(self, now: datetime, *, refused: bool, beyond: bool) -> None:
        """Enter one request into the piece that `now` is in."""
        start = self._start(now)
        if not self.history or self.history[-1].starts_at != start:
            self.history.append(Tally(starts_at=start, limit=self.window.limit))
        tally = self.history[-1]
        used = tally.used + (self.window.counts_refused or not refused)
        tally.count(used=used, refused=refused, beyond=beyond)
        self.beyond += beyond

    def _start(self, now: datetime) -> datetime:
        seconds = int(now.timestamp()) // self.window.seconds * self.window.seconds
        return datetime.fromtimestamp(seconds, UTC)


class RollingGauge:
    """Counts over the last seconds, whatever the hour."""

    def __init__(self, window: Window) -> None:
        """Begin with nothing counted."""
        self.window = window
        self.history: deque[Tally] = deque(maxlen=1)
        self.beyond = 0
        self._times: deque[datetime] = deque()

    def used(self, now: datetime) -> int:
        """The count of the last seconds."""
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
        """Enter one request."""
        if not self.history:
            self.history.append(Tally(starts_at=now, limit=self.window.limit))
        if self.window.counts_refused or not refused:
            self._times.append(now)
        self.history[-1].count(used=self.used(now), refused=refused, beyond=beyond)
        self.beyond += beyond


def gauge_of(window: Window) -> Gauge:
    """The gauge for this kind of window."""
    return RollingGauge(window) if window.rolling else AlignedGauge(window)
