"""Leases: who has a row, and what a change makes of it; the same for every leased type.

A leased type is a kind of row that one worker at a time works on: a job, an item, a delivery. Its
worker claims it, which raises the row's `token`, and has it until `lease_until`, unless it extends
the lease. Every later write names the token: whoever comes with an older one has lost the row.

A change of a row is a value, made by one constructor per transition from the row as it was read.
The store locks the row, asks `LeasedType.settled` what becomes of it, and writes that. So no store
decides anything: what a change means is said here and in the modules of the leased types, once.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from headgate.model.states import Edge, Machine

#: Waits are durations: only the store makes times of them, by its own clock.
NOW = timedelta(0)


class LeasedRow(Protocol):
    """What the rows of all leased types have. The column that wakes each has its own name."""

    @property
    def id(self) -> str:
        """Its name, for ever."""
        ...

    @property
    def state(self) -> Any:
        """Where it stands in the machine of its type."""
        ...

    @property
    def token(self) -> int:
        """Raised by every claim."""
        ...

    @property
    def lease_until(self) -> datetime | None:
        """When the claim runs out; None where nobody has it."""
        ...

    @property
    def worker(self) -> str | None:
        """Who claimed it last."""
        ...

    @property
    def attempted_at(self) -> datetime | None:
        """When it was last claimed, or its worker last began something."""
        ...

    @property
    def crashes(self) -> int:
        """Workers that were lost with it."""
        ...

    @property
    def updated_at(self) -> datetime:
        """When it last changed, by the store's clock."""
        ...


Row = TypeVar("Row", bound=LeasedRow)


class Change(msgspec.Struct, Generic[Row], frozen=True, gc=False, kw_only=True):
    """One transition of one row, not yet applied."""

    #: The row as it was read, and as it should become, but for what only the store knows.
    before: Row
    after: Row
    edge: Edge[Any]
    #: How long until something happens next by itself; None where nothing does.
    wake: timedelta | None = None
    #: Only if the lease is still the one that was seen to have run out.
    lease_seen: datetime | None = None
    #: Raises the token, which shuts out whoever has the row claimed.
    fences: bool = False


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A row that a worker has, under this token."""

    id: str
    token: int


class LockedRow(msgspec.Struct):
    """A row as it stands under the store's lock, as far as the rules need to know it."""

    state: Any
    token: int
    lease_until: datetime | None
    #: The store's time.
    now: datetime


AnyChange = TypeVar("AnyChange", bound=Change[Any])
AnyLocked = TypeVar("AnyLocked", bound=LockedRow)


def fence_holds(change: Change[Any], locked: LockedRow) -> bool:
    """Whether the claim that the change was made under is still the row's."""
    return locked.token == change.before.token and (
        change.lease_seen is None or locked.lease_until == change.lease_seen
    )


def require_same_state(change: AnyChange, locked: LockedRow) -> AnyChange | None:
    """The change, where the row is in the state that it was read in; None where it is not."""
    return change if locked.state is change.before.state else None


def fill_nothing(change: Change[Any], locked: LockedRow) -> dict[str, Any]:
    """For a leased type without columns of its own that only the store can fill."""
    return {}


class LeasedType(Generic[Row, AnyChange, AnyLocked]):
    """What there is to know of a leased type beyond its rows; a store needs nothing else."""

    def __init__(
        self,
        *,
        machine: Machine[Any],
        row: type[Row],
        locked: type[AnyLocked],
        wake: str,
        always: tuple[str, ...] = (),
        if_changed: tuple[str, ...] = (),
        resolve: Callable[[AnyChange, AnyLocked], AnyChange | None] = require_same_state,
        fill: Callable[[AnyChange, AnyLocked], dict[str, Any]] = fill_nothing,
        is_written: Callable[[AnyChange, Row], bool] | None = None,
    ) -> None:
        """Describe the rows of `machine`.

        `wake` is the column that says when something happens next by itself. Every change writes
        the columns that all leased types have, and those `always`; of `if_changed`, which only the
        worker that has the row changes, those that did. `redirect` says what becomes of a change
        that finds the row as it stands, `fill` gives the columns that depend on the store's time or
        on the row as it stands, and `is_written` tells whether a row that was read later is what
        the change made of it.
        """
        self.machine = machine
        self.row = row
        self.locked = locked
        self.wake = wake
        self.always = ("state", wake, "token", "lease_until", "updated_at", *always)
        self.if_changed = if_changed
        self._resolve = resolve
        self._fill = fill
        self._is_written = is_written or self._is_in_target

    def apply(self, change: AnyChange, locked: AnyLocked) -> tuple[AnyChange, Row] | None:
        """What becomes of the change, and of the row; None where the race was lost."""
        if not fence_holds(change, locked):
            return None
        found = self._resolve(change, locked)
        if found is None:
            return None
        columns = {
            self.wake: None if found.wake is None else locked.now + found.wake,
            "token": locked.token + found.fences,
            "lease_until": locked.lease_until if self.keeps_claim(found) else None,
            "updated_at": locked.now,
            **self._fill(found, locked),
        }
        return found, replace(found.after, **columns)

    def keeps_claim(self, change: AnyChange) -> bool:
        """Whether a worker has the row after the change."""
        return change.edge.target in self.machine.claimed

    def is_written(self, change: AnyChange, row: Row) -> bool:
        """Whether `row`, read after a write whose outcome is not known, is what it was to make."""
        return row.token == change.before.token + change.fences and self._is_written(change, row)

    def _is_in_target(self, change: AnyChange, row: Row) -> bool:
        return row.state is change.edge.target
