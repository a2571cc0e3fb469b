"""Statements for many rows, compiled once.

A driver's executemany runs the statement for every row, which costs a message to the server or, on
SQLite, a switch between threads. Here the statement reads the rows as a table: on Postgres from one
array for each column, on SQLite from a list of VALUES. Either way a batch is one statement.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ClauseElement,
    Connection,
    CursorResult,
    Dialect,
    FromClause,
    Integer,
    Table,
    bindparam,
    column,
    func,
    select,
    true,
    values,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from headgate.store.sql.prepared import bind_processor, execute, result_processor
from headgate.store.sql.statements import Insert, insert_into

#: Takes the given rows as a table, and returns the statement that reads them.
Build = Callable[[FromClause, Dialect], ClauseElement]
Results = Sequence[CursorResult[Any]]
#: SQL of the driver, with the values of some rows.
DriverCall = tuple[str, tuple[Any, ...]]
Calls = Callable[[Sequence[Any]], Iterable[DriverCall]]

#: The most rows in one statement on SQLite. Batches are cut into powers of two, so that a few
#: prepared statements serve every size.
_SQLITE_ROWS_MAX = 128


class Rows(NamedTuple):
    """A column of the given rows: its type, and how to read it from a row."""

    kind: TypeEngine[Any]
    of_row: Callable[[Any], Any]


class InPlace(NamedTuple):
    """A value, and its place among those that are given."""

    place: int
    value: Any


class BatchStatement:
    """A statement whose values all come from the given rows."""

    def __init__(
        self,
        given: Mapping[str, Rows],
        build: Build,
        *,
        returns: Sequence[TypeEngine[Any]] = (),
    ) -> None:
        """Run the statement of `build` with rows of these columns.

        `returns` are the types of the columns that it returns, if these are to be converted.
        """
        self._given = given
        self._build = build
        self._returns = returns
        self._calls_on: dict[str, Calls] = {}

    def run(self, tx: Connection, rows: Sequence[Any]) -> Results:
        """Run it for all rows, in no particular order; returns the result of each statement."""
        return [tx.exec_driver_sql(*each) for each in self._cut_up(tx.dialect, rows)]

    def find(self, tx: Connection, rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Run it for all rows; the rows that it returns, in no particular order."""
        found = [execute(tx, *each) for each in self._cut_up(tx.dialect, rows)]
        all_rows = chain.from_iterable(found)
        return _converted(all_rows, self._returns, tx.dialect) if self._returns else all_rows

    def write(self, tx: Connection, rows: Sequence[Any]) -> None:
        """Run it for all rows, in no particular order, without results, which is faster."""
        for sql, given in self._cut_up(tx.dialect, rows):
            execute(tx, sql, given)

    def _cut_up(self, dialect: Dialect, rows: Sequence[Any]) -> Iterable[DriverCall]:
        if not rows:
            return ()
        if dialect.name not in self._calls_on:
            make = self._on_postgres if dialect.name == "postgresql" else self._on_sqlite
            self._calls_on[dialect.name] = make(dialect)
        return self._calls_on[dialect.name](rows)

    def _on_postgres(self, dialect: Dialect) -> Calls:
        arrays = [
            bindparam(name, type_=postgresql.ARRAY(each.kind)) for name, each in self._given.items()
        ]
        given = func.unnest(*arrays).table_valued(*self._columns()).render_derived(name="given")
        sql = str(self._build(given, dialect).compile(dialect=dialect))
        takers = [_taker(each, dialect) for each in self._given.values()]

        def calls(rows: Sequence[Any]) -> Iterable[DriverCall]:
            return [(sql, tuple([_array(take(rows)) for take in takers]))]

        return calls

    def _on_sqlite(self, dialect: Dialect) -> Calls:
        row = tuple([bindparam(name, type_=each.kind) for name, each in self._given.items()])
        given = values(*self._columns()).data([row]).cte("given")
        one_row = str(self._build(given, dialect).compile(dialect=dialect))
        places = f"({', '.join('?' * len(self._given))})"
        before, found, after = one_row.partition(places)
        assert found and "?" not in before + after, f"values that are not given: {one_row}"
        takers = [_taker(each, dialect) for each in self._given.values()]
        by_size: dict[int, str] = {}

        def calls(rows: Sequence[Any]) -> Iterable[DriverCall]:
            for batch in _cut(rows):
                size = len(batch)
                if size not in by_size:
                    by_size[size] = before + ", ".join([places] * size) + after
                by_row = zip(*[take(batch) for take in takers], strict=True)
                yield by_size[size], tuple(chain(*by_row))

        return calls

    def _columns(self) -> Iterable[Any]:
        return [column(name, each.kind) for name, each in self._given.items()]


def insert_many(
    table: Table,
    names: Sequence[str],
    on_conflict: Callable[[Insert], Insert] | None = None,
    order_by: str | None = None,
) -> BatchStatement:
    """An INSERT of rows with these columns; `on_conflict` adds the ON CONFLICT clause.

    `order_by` names an extra number of each row: the table assigns its ids in that order.
    """

    def build(given: FromClause, dialect: Dialect) -> ClauseElement:
        # WHERE true, because SQLite would parse ON CONFLICT as the ON of a join.
        rows = select(*[given.c[name] for name in names]).where(true())
        if order_by is not None:
            rows = rows.order_by(given.c[order_by])
        insert = insert_into(dialect, table).from_select(names, rows, include_defaults=False)
        return insert if on_conflict is None else on_conflict(insert)

    kinds: dict[str, TypeEngine[Any]] = {name: table.c[name].type for name in names}
    if order_by is not None:
        kinds[order_by] = Integer()
    return BatchStatement(by_key(kinds), build)


def by_key(kinds: Mapping[str, TypeEngine[Any]]) -> dict[str, Rows]:
    """The columns of rows that are mappings."""
    return {name: Rows(kind, itemgetter(name)) for name, kind in kinds.items()}


def by_place(kinds: Mapping[str, TypeEngine[Any]]) -> dict[str, Rows]:
    """The columns of rows that are `InPlace`: the place, and an object with these attributes."""
    place: dict[str, Rows] = {"place": Rows(Integer(), attrgetter("place"))}
    return place | {name: Rows(kind, attrgetter(f"value.{name}")) for name, kind in kinds.items()}


def _cut(rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """Cut the rows into batches whose sizes are powers of two, the largest first."""
    size, begin = _SQLITE_ROWS_MAX, 0
    while begin < len(rows):
        if len(rows) - begin >= size:
            yield rows[begin : begin + size]
            begin += size
        else:
            size //= 2


def _converted(
    rows: Iterable[Sequence[Any]], kinds: Sequence[TypeEngine[Any]], dialect: Dialect
) -> Iterator[Sequence[Any]]:
    """The rows as values of these types."""
    converts = [result_processor(kind, dialect) for kind in kinds]
    for row in rows:
        yield [
            value if convert is None else convert(value)
            for convert, value in zip(converts, row, strict=True)
        ]


def _array(values: list[Any]) -> list[Any] | None:
    """The values of a column; None, which `unnest` reads as so many NULLs, if all are None.

    The driver looks at every value of an array, and a batch has columns that nobody has set.
    """
    return None if values[0] is None and values.count(None) == len(values) else values


def _taker(given: Rows, dialect: Dialect) -> Callable[[Sequence[Any]], list[Any]]:
    """A function that reads a column from all rows, converted for the driver."""
    of_row = given.of_row
    convert = bind_processor(given.kind, dialect)
    # By `map`, which calls an `attrgetter` without a step of the interpreter for every row.
    if convert is None:
        return lambda rows: list(map(of_row, rows))
    return lambda rows: list(map(convert, map(of_row, rows)))
