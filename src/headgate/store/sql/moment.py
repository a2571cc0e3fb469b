"""The store's time: what judges every lease, deadline and wake-up.

On Postgres it is the server's clock, so that workers whose clocks disagree agree on who holds what.
SQLite has no server: its time is the injected clock, read when the transaction runs.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Interval, func, literal

from headgate.base.clock import Clock
from headgate.store.sql.types import UtcTime

ZERO = timedelta(0)


class Moment:
    """Now, inside one transaction, as SQL."""

    def __init__(self, now: datetime | None) -> None:
        """Stand at `now`, or where it is None, at the database server's own time."""
        self._now = now

    def at(self, after: timedelta = ZERO) -> ColumnElement[datetime]:
        """The moment `after` from now."""
        if self._now is not None:
            return literal(self._now + after, UtcTime)
        # now() is the start of the transaction: one moment for all its statements.
        now = func.now(type_=UtcTime)
        return now + literal(after, Interval) if after else now


class StoreTime:
    """Gives the moment for each transaction."""

    def __init__(self, clock: Clock, *, server: bool) -> None:
        """Read the server's clock if `server`, else `clock`."""
        self._clock = clock
        self._server = server

    def moment(self) -> Moment:
        """Now."""
        return Moment(None if self._server else self._clock.now())
