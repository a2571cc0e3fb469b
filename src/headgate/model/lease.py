"""Leases: the rules of claims and changes that are the same for every leased type.

A leased type is a kind of row that one worker at a time works on: a job, an item, a delivery. A
worker claims a row, which raises the row's `token`, and has it until `lease_until` unless it
extends the lease. Every later write names the token; a writer with an older token has lost the row.

A change is a value; each transition has one constructor, which takes the row as it was read. The
store locks the row, calls `LeasedType.apply` and writes its result. So the store decides nothing:
the meaning of a change is defined here and in the modules of the leased types.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from headgate.base.errors import IllegalTransition
from headgate.model.states import Edge, Machine

#: Waits are durations; only the store turns them into times, by its own clock.
AT_ONCE = timedelta(0)
#: The token of no claim: the first claim of a row raises it to one.
NO_CLAIM = 0


class LeasedRow(Protocol):
    """The fields that the rows of all leased types have. Each type names its own wake column."""

    @property
    def id(self) -> str:
        """The row's id, which never changes."""
        ...

    @property
    def state(self) -> Any:
        """The row's state in the machine of its type."""
        ...

    @property
    def token(self) -> int:
        """The number of the claim; every claim raises it."""
        ...

    @property
    def lease_until(self) -> datetime | None:
        """When the lease ends; None if no worker has the row."""
        ...

    @property
    def worker(self) -> str | None:
        """The worker that claimed the row last."""
        ...

    @property
    def attempted_at(self) -> datetime | None:
        """When the row was last claimed, or its worker last began a chunk."""
        ...

    @property
    def crashes(self) -> int:
        """The number of workers that were lost while they had the row."""
        ...

    @property
    def updated_at(self) -> datetime:
        """When the row last changed, by the store's clock."""
        ...


Row = TypeVar("Row", bound=LeasedRow)


class Change(msgspec.Struct, Generic[Row], frozen=True, gc=False, kw_only=True):
    """One transition of one row, not yet applied."""

    #: The row as it was read, and as it should become, except for columns that the store fills.
    before: Row
    after: Row
    edge: Edge[Any, Any]
    #: How long until something happens next by itself; None: nothing does.
    wake: timedelta | None = None
    #: Apply the change only if the lease still ends then: the lease that was seen to expire.
    lease_seen: datetime | None = None
    #: Whether the change raises the token, which ends any claim on the row.
    fences: bool = False


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A worker's claim on a row: the row's id and the token of the claim."""

    id: str
    token: int


class LockedRow(msgspec.Struct):
    """The columns of a row under the store's lock that the rules need."""

    state: Any
    token: int
    lease_until: datetime | None
    #: The store's time.
    now: datetime


AnyChange = TypeVar("AnyChange", bound=Change[Any])
AnyLocked = TypeVar("AnyLocked", bound=LockedRow)


def make_change(
    kind: type[AnyChange],
    machine: Machine[Any, Any],
    row: Any,
    edge: Any,
    becomes: Any,
    **fields: Any,
) -> AnyChange:
    """The change of `row` along an edge; IllegalTransition if the edge does not begin there."""
    to = machine.edge(edge)
    if row.state not in to.sources:
        raise IllegalTransition(
            f"the {machine.name} {row.id!r} is {row.state.value}: no {edge} from there"
        )
    return kind(before=row, after=replace(becomes, state=to.target), edge=to, **fields)


def fence_holds(change: Change[Any], locked: LockedRow) -> bool:
    """Whether the row still has the claim under which the change was made."""
    return locked.token == change.before.token and (
        change.lease_seen is None or locked.lease_until == change.lease_seen
    )


def require_same_state(change: AnyChange, locked: LockedRow) -> AnyChange | None:
    """The change, if the row is still in the state in which it was read; else None."""
    return change if locked.state is change.before.state else None


def fill_nothing(change: Change[Any], locked: LockedRow) -> dict[str, Any]:
    """No columns: for a leased type without columns that only the store can fill."""
    return {}


class LeasedType(Generic[Row, AnyChange, AnyLocked]):
    """The description of a leased type; a store needs nothing else to work with its rows."""

    def __init__(
        self,
        *,
        machine: Machine[Any, Any],
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

        `wake` is the column that says when something happens next by itself. A change sets the
        columns common to all leased types and the columns `always`, which others may have changed
        since the row was read. The columns `if_changed`, which only the worker with the claim
        changes, are written if they differ from the row as it was read. `resolve` returns
        the change to write for the row as it is locked, `fill` the columns that depend on the
        store's time or on the locked row. `is_written` tells whether a row that was read later is
        the result of the change.
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
        """The change that takes effect, and the row to write; None if the race was lost."""
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
        """Whether `row`, read after a write of unknown outcome, is the result of the change."""
        return row.token == change.before.token + change.fences and self._is_written(change, row)

    def _is_in_target(self, change: AnyChange, row: Row) -> bool:
        return row.state is change.edge.target
