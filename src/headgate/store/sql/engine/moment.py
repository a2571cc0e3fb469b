"""The store's time, which judges every lease, deadline and wake-up.

On Postgres it is the server's clock, so that workers whose clocks differ agree on all claims.
SQLite has no server: its time is the injected clock, read when the transaction runs.

`Moment.at` writes the time into a statement. Statements that run for every chunk are built once,
with `instant` in place of the time, and get the time from `Moment.binds`.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Interval, bindparam, func, literal, select

from headgate.base.clock import Clock
from headgate.model.lease import AT_ONCE
from headgate.store.sql.engine.types import UtcTime


class Moment:
    """The present time of one transaction, as SQL."""

    def __init__(self, now: datetime | None) -> None:
        """Use `now`; None: the database server's own time."""
        self._now = now

    @property
    def server(self) -> bool:
        """Whether this is the server's time."""
        return self._now is None

    def at(self, after: timedelta = AT_ONCE) -> ColumnElement[datetime]:
        """The time that is `after` from now."""
        if self._now is not None:
            return literal(self._now + after, UtcTime)
        # now() is the start of the transaction, the same for all its statements.
        now = func.now(type_=UtcTime)
        return now + literal(after, Interval) if after else now

    def read(self, tx: Connection) -> datetime:
        """The time itself, read now: after any wait for a lock."""
        if self._now is not None:
            return self._now
        at: datetime = tx.execute(select(func.clock_timestamp(type_=UtcTime))).scalar_one()
        return at

    def binds(self, **after: timedelta) -> dict[str, Any]:
        """The parameters for the instants of a statement: now, and now plus each named duration."""
        if self._now is None:
            return {f"{name}_from_now": span for name, span in after.items()}
        spans = {f"{name}_from_now": self._now + span for name, span in after.items()}
        return {"this_moment": self._now, **spans}


def instant(*, server: bool, after: str | None = None) -> ColumnElement[datetime]:
    """Now, or now plus the duration named `after`, for a statement that is built once."""
    if not server:
        name = "this_moment" if after is None else f"{after}_from_now"
        return bindparam(name, type_=UtcTime())
    now = func.now(type_=UtcTime)
    return now if after is None else now + bindparam(f"{after}_from_now", type_=Interval())


class StoreTime:
    """The source of the time for each transaction."""

    def __init__(self, clock: Clock, *, server: bool) -> None:
        """Read the server's clock if `server`, else `clock`."""
        self._clock = clock
        self._server = server

    def moment(self) -> Moment:
        """The present time."""
        return Moment(None if self._server else self._clock.now())

    def monotonic(self) -> float:
        """Seconds of this process, for durations."""
        return self._clock.monotonic()
