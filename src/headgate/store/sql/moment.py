"""The store's time: what judges every lease, deadline and wake-up.

On Postgres it is the server's clock, so that workers whose clocks disagree agree on who holds what.
SQLite has no server: its time is the injected clock, read when the transaction runs.

`Moment.at` writes the time into a statement. The statements that run for every chunk are built only
once, with `instant` where the time goes, and get it by `Moment.binds`.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Interval, bindparam, func, literal, select

from headgate.base.clock import Clock
from headgate.store.sql.types import UtcTime

ZERO = timedelta(0)


class Moment:
    """Now, inside one transaction, as SQL."""

    def __init__(self, now: datetime | None) -> None:
        """Stand at `now`, or where it is None, at the database server's own time."""
        self._now = now

    @property
    def server(self) -> bool:
        """Whether it is the server's time."""
        return self._now is None

    def at(self, after: timedelta = ZERO) -> ColumnElement[datetime]:
        """The moment `after` from now."""
        if self._now is not None:
            return literal(self._now + after, UtcTime)
        # now() is the start of the transaction: one moment for all its statements.
        now = func.now(type_=UtcTime)
        return now + literal(after, Interval) if after else now

    def read(self, tx: Connection) -> datetime:
        """The time itself, as late as may be: a lock that was waited for is behind us."""
        if self._now is not None:
            return self._now
        at: datetime = tx.execute(select(func.clock_timestamp(type_=UtcTime))).scalar_one()
        return at

    def binds(self, **after: timedelta) -> dict[str, Any]:
        """What the instants of a statement stand for: now, and now plus each named duration."""
        if self._now is None:
            return {f"{name}_from_now": span for name, span in after.items()}
        spans = {f"{name}_from_now": self._now + span for name, span in after.items()}
        return {"this_moment": self._now, **spans}


def instant(*, server: bool, after: str | None = None) -> ColumnElement[datetime]:
    """Now, or now plus the duration named `after`, in a statement that is built once."""
    if not server:
        name = "this_moment" if after is None else f"{after}_from_now"
        return bindparam(name, type_=UtcTime())
    now = func.now(type_=UtcTime)
    return now if after is None else now + bindparam(f"{after}_from_now", type_=Interval())


class StoreTime:
    """Gives the moment for each transaction."""

    def __init__(self, clock: Clock, *, server: bool) -> None:
        """Read the server's clock if `server`, else `clock`."""
        self._clock = clock
        self._server = server

    def moment(self) -> Moment:
        """Now."""
        return Moment(None if self._server else self._clock.now())
