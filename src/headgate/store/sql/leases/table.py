"""Leases in a SQL table: claim, extend, lock, guarded write and sweep, for all leased types.

The description of the type in the model decides what a change does to a row. A batch takes the same
few statements, however many rows it has.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Connection,
    Dialect,
    FromClause,
    ScalarSelect,
    Select,
    Table,
    and_,
    bindparam,
    func,
    literal_column,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.sql.selectable import TypedReturnsRows

from headgate.base.errors import NotFound
from headgate.model.lease import AnyChange, AnyLocked, Claim, LeasedType, Row
from headgate.store.sql.engine.many import BatchStatement, Rows
from headgate.store.sql.engine.moment import Moment, instant
from headgate.store.sql.engine.prepared import prepare
from headgate.store.sql.engine.statements import among_texts, bind_texts
from headgate.store.sql.tables import in_states

Payload = TypeVar("Payload")

#: The column that every change writes.
_WRITTEN = "updated_at"


class RowUpdate(Generic[Row, AnyChange, Payload]):
    """A change to write: the row after it, and the payload to store with it."""

    __slots__ = ("change", "now", "payload", "row", "seen", "seen_state", "seen_token")

    def __init__(
        self,
        change: AnyChange,
        row: Row,
        payload: Payload | None,
        locked: "_RowUnderLock",
    ) -> None:
        """Write `row` over the row that was locked, with the state and token that it had."""
        self.change = change
        self.row = row
        self.payload = payload
        self.seen = locked.seen
        self.seen_state = locked.row.state
        self.seen_token = locked.row.token
        self.now: datetime = locked.row.now


class _RowUnderLock(NamedTuple):
    """A row under the lock: what the rules need of it, and the columns that others may change."""

    row: Any
    seen: tuple[Any, ...]


class LeaseTable(Generic[Row, AnyChange, AnyLocked, Payload]):
    """The rows of one leased type."""

    def __init__(self, kind: LeasedType[Row, AnyChange, AnyLocked], table: Table) -> None:
        """Store the rows of `kind` in `table`, whose columns have the names of the row's fields."""
        self.kind = kind
        self.table = table
        self._fields: tuple[str, ...] = kind.row.__struct_fields__  # type: ignore[attr-defined]
        #: In the order of the row's fields.
        self.columns = tuple(table.c[name] for name in self._fields)
        #: The condition that a worker has claimed the row.
        self.claimed = in_states(table, *kind.machine.claimed)
        self._locked_fields: tuple[str, ...] = kind.locked.__struct_fields__
        #: What others may change too: compared with the row under the lock.
        self._shared = tuple(name for name in kind.always if name != _WRITTEN)
        self._shared_of = attrgetter(*self._shared)
        self._seen_fields = tuple(dict.fromkeys(["id", *self._locked_fields, *self._shared]))
        self._seen_of = itemgetter(*map(self._seen_fields.index, self._shared))
        #: What only the worker with the claim changes: compared with the row as it was read.
        self._changes = {name: attrgetter(name) for name in kind.if_changed}
        # Built once, because these run for every chunk.
        self._locking = cache(self._build_lock)
        self._writing = cache(self._build_write)
        self._next_expiring = cache(self._build_next_expiry)

    # ---- reading -------------------------------------------------------------------------------

    def to_row(self, row: Sequence[Any]) -> Row:
        """The value of a row of `columns`."""
        return self.kind.row(**dict(zip(self._fields, row, strict=True)))

    def find(self, tx: Connection, query: TypedReturnsRows[Any], binds: Any = None) -> list[Row]:
        """The rows that a query on `columns` finds."""
        return [self.to_row(row) for row in tx.execute(query, binds)]

    def get(self, tx: Connection, row_id: str, *, user_id: str | None = None) -> Row:
        """The row; NotFound if it does not exist or belongs to another user."""
        query = select(*self.columns).where(self.table.c.id == row_id)
        if user_id is not None:
            query = query.where(self.table.c.user_id == user_id)
        row = tx.execute(query).one_or_none()
        if row is None:
            raise NotFound(f"there is no {self.kind.machine.name} {row_id!r}")
        return self.to_row(row)

    def among(self, dialect: Dialect) -> ColumnElement[bool]:
        """The condition that the id is one of `ids`, which are one parameter on Postgres."""
        if dialect.name == "postgresql":
            return among_texts(dialect, self.table.c.id, "ids")
        return self.table.c.id.in_(bindparam("ids", expanding=True))

    # ---- claiming and keeping ------------------------------------------------------------------

    def claim(self, due: Select[Any], *, server: bool, **more: Any) -> ReturningUpdate[Any]:
        """The statement that claims the rows whose ids `due` selects and locks, atomically.

        The statement takes `by_worker` and the duration `lease`, also writes the columns `more`,
        and returns `columns`, in no particular order.
        """
        # In a CTE, so that it runs exactly once.
        picked = due.cte("picked")
        now = instant(server=server)
        values = {
            "state": self.kind.machine.claim.target,
            "token": self.table.c.token + literal_column("1"),
            "lease_until": instant(server=server, after="lease"),
            "worker": bindparam("by_worker"),
            self.kind.wake: None,
            "attempted_at": now,
            "updated_at": now,
            **more,
        }
        return (
            update(self.table)
            .where(self.table.c.id.in_(select(picked.c.id)))
            .values(values)
            .returning(*self.columns)
        )

    def extend(
        self, tx: Connection, now: Moment, claims: Sequence[Claim], *, lease: timedelta
    ) -> dict[str, Any]:
        """Extend the leases of these claims; returns the states of the rows still so claimed.

        Rows are locked in the order of their ids, as everywhere, so that transactions never
        deadlock.
        """
        table = self.table
        pairs = [(each.id, each.token) for each in claims]
        mine = (
            select(table.c.id)
            .where(
                table.c.id.in_([row_id for row_id, _ in pairs]),
                tuple_(table.c.id, table.c.token).in_(pairs),
                self.claimed,
            )
            .order_by(table.c.id)
            .with_for_update()
            .cte("mine")
        )
        statement = (
            update(table)
            .where(table.c.id.in_(select(mine.c.id)))
            .values(lease_until=now.at(lease))
            .returning(table.c.id, table.c.state)
        )
        return {row.id: row.state for row in tx.execute(statement)}

    def expire(self, tx: Connection, now: Moment, worker: str) -> int:
        """Let the leases of a worker expire now, so that a sweep rescues its rows.

        Of the rows that are claimed, which the index of leases holds, and no others.
        """
        table = self.table
        theirs = (
            select(table.c.id)
            .where(self.claimed, table.c.worker == worker, table.c.lease_until > now.at())
            .order_by(table.c.id)
            .with_for_update()
            .cte("theirs")
        )
        statement = (
            update(table)
            .where(table.c.id.in_(select(theirs.c.id)))
            .values(lease_until=now.at())
            .returning(table.c.id)
        )
        return len(tx.execute(statement).all())

    # ---- the guarded write ---------------------------------------------------------------------

    def settle(
        self,
        tx: Connection,
        now: Moment,
        batch: Sequence[tuple[AnyChange, Payload | None]],
        store: Callable[[Connection, list[RowUpdate[Row, AnyChange, Payload]]], None] | None = None,
    ) -> list[Row | None]:
        """Apply the changes that are still valid; the result of a change that lost is None.

        `store` calls `write`, and writes whatever else belongs to the transaction.
        """
        results: list[Row | None] = [None] * len(batch)
        for places in _each_row_once([change.after.id for change, _ in batch]):
            settled = self._settle_together(tx, now, [(place, *batch[place]) for place in places])
            if settled:
                (store or self.write)(tx, list(settled.values()))
                for place, each in settled.items():
                    results[place] = each.row
        return results

    def _settle_together(
        self, tx: Connection, now: Moment, batch: Sequence[tuple[int, AnyChange, Payload | None]]
    ) -> dict[int, RowUpdate[Row, AnyChange, Payload]]:
        locked = self._lock(tx, now, sorted(change.after.id for _, change, _ in batch))
        settled: dict[int, RowUpdate[Row, AnyChange, Payload]] = {}
        for place, change, payload in batch:
            found = locked.get(change.after.id)
            became = None if found is None else self.kind.apply(change, found.row)
            if found is not None and became is not None:
                settled[place] = RowUpdate(*became, payload, found)
        return settled

    def _lock(self, tx: Connection, now: Moment, ids: Sequence[str]) -> dict[str, _RowUnderLock]:
        query = prepare(self._locking(tx.dialect, server=now.server), tx.dialect)
        rows = query.run(tx, {"ids": bind_texts(tx.dialect, ids), **now.binds()})
        end = 1 + len(self._locked_fields)
        return {
            row[0]: _RowUnderLock(self.kind.locked(*row[1:end]), self._seen_of(row)) for row in rows
        }

    def _build_lock(self, dialect: Dialect, *, server: bool) -> Select[Any]:
        now = instant(server=server).label("now")
        columns = [now if name == "now" else self.table.c[name] for name in self._seen_fields]
        return (
            select(*columns)
            .where(among_texts(dialect, self.table.c.id, "ids"))
            .order_by(self.table.c.id)
            .with_for_update()
        )

    def write(self, tx: Connection, settled: Sequence[RowUpdate[Row, AnyChange, Payload]]) -> None:
        """Write the rows; those that change the same columns share a statement.

        What stays as it is is not written: SQLite writes every index of a column that it is given.
        """
        alike: dict[tuple[str, ...], list[RowUpdate[Row, AnyChange, Payload]]] = {}
        for each in settled:
            before, after = each.change.before, each.row
            # Lists are faster than generators here.
            names = [name for name, of in self._changes.items() if of(before) != of(after)]
            shared = self._shared_of(after)
            if shared != each.seen:
                pairs = zip(self._shared, each.seen, shared, strict=True)
                names += [name for name, seen, new in pairs if seen != new]
            alike.setdefault(tuple(names), []).append(each)
        for changed, rows in alike.items():
            self._writing(changed).run(tx, rows)

    def _build_write(self, changed: tuple[str, ...]) -> BatchStatement:
        """The guarded write for changes of these columns; a few combinations cover almost all."""
        table = self.table
        written = (_WRITTEN, *changed)

        def build(rows: FromClause, _: Dialect) -> ClauseElement:
            return (
                update(table)
                .where(
                    table.c.id == rows.c.seen_id,
                    table.c.token == rows.c.seen_token,
                    table.c.state == rows.c.seen_state,
                )
                .values({name: rows.c[f"new_{name}"] for name in written})
            )

        given = {
            "seen_id": Rows(table.c.id.type, attrgetter("row.id")),
            "seen_token": Rows(table.c.token.type, attrgetter("seen_token")),
            "seen_state": Rows(table.c.state.type, attrgetter("seen_state")),
        }
        for name in written:
            given[f"new_{name}"] = Rows(table.c[name].type, attrgetter(f"row.{name}"))
        return BatchStatement(given, build)

    # ---- sweeping ------------------------------------------------------------------------------

    def list_expired(self, tx: Connection, now: Moment, *, limit: int) -> list[Row]:
        """Rows whose lease has expired, the oldest first."""
        lease_until = self.table.c.lease_until
        query = select(*self.columns).where(self.claimed, lease_until < now.at())
        return self.find(tx, query.order_by(lease_until).limit(limit))

    def next_sweep_s(self, tx: Connection, now: Moment) -> float | None:
        """Seconds until the first lease ends; None if nothing is claimed."""
        return seconds_until_first(tx, self._next_expiring(server=now.server), now.binds())

    def _build_next_expiry(self, *, server: bool) -> Select[Any]:
        return times(self.first_expiry(), server=server)

    def first_expiry(self) -> ScalarSelect[Any]:
        """When the first lease ends."""
        return select(func.min(self.table.c.lease_until)).where(self.claimed).scalar_subquery()

    # ---- counting ------------------------------------------------------------------------------

    def count_by_state(self, tx: Connection, *where: ColumnElement[bool]) -> Mapping[Any, int]:
        """The number of rows in each state, zero included."""
        query = select(self.table.c.state, func.count()).where(and_(True, *where))
        found = {row[0]: row[1] for row in tx.execute(query.group_by(self.table.c.state))}
        return {state: found.get(state, 0) for state in self.kind.machine.states}


def times(*first: ScalarSelect[Any], server: bool) -> Select[Any]:
    """A query for the store's time and these times."""
    return select(instant(server=server).label("at"), *first)


def seconds_until_first(
    tx: Connection, query: Select[Any], binds: Mapping[str, Any]
) -> float | None:
    """Seconds until the first time of a query made by `times`, at least 0; None without any."""
    at, *found = tx.execute(query, binds).one()
    due = [time for time in found if time is not None]
    return max(0.0, (min(due) - at).total_seconds()) if due else None


def _each_row_once(ids: Sequence[str]) -> Iterator[Sequence[int]]:
    """Places of the batch to settle together: a row's second change is applied after its first."""
    if len(set(ids)) == len(ids):
        yield range(len(ids))
        return
    rounds: list[list[int]] = []
    turns: Counter[str] = Counter()
    for place, row_id in enumerate(ids):
        if turns[row_id] == len(rounds):
            rounds.append([])
        rounds[turns[row_id]].append(place)
        turns[row_id] += 1
    yield from rounds
