"""Statements for many rows, compiled once.

A driver's executemany runs the statement for every row, which costs a message to the server or, on
SQLite, a switch between threads. Here the statement reads the rows as a table: on Postgres from one
array for each column whose values differ, on SQLite from a list of VALUES. Either way a batch is
one statement.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ClauseElement,
    Connection,
    Dialect,
    FromClause,
    Integer,
    Table,
    bindparam,
    cast,
    column,
    func,
    select,
    true,
    values,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from headgate.store.sql.engine.prepared import (
    Row,
    bind_processor,
    conversions,
    convert_rows,
    execute,
)
from headgate.store.sql.engine.statements import Insert, insert_into

#: Takes the given rows as a table, and returns the statement that reads them.
Build = Callable[[FromClause, Dialect], ClauseElement]
#: SQL of the driver, with the values of some rows.
DriverCall = tuple[str, tuple[Any, ...]]
Calls = Callable[[Sequence[Any]], Iterable[DriverCall]]

#: The most rows in one statement on SQLite. Batches are cut into powers of two, so that a few
#: prepared statements serve every size.
_SQLITE_ROWS_MAX = 128
#: On Postgres, a column with the same value in all rows is sent as that value, from so many rows
#: on: most columns of a batch are such, and the driver takes long for an array.
_SAME_FROM_ROWS = 16
#: The most combinations of such columns for which a statement is compiled.
VARIANTS_MAX = 8


class Rows(NamedTuple):
    """A column of the given rows: its type, and how to read it from a row."""

    kind: TypeEngine[Any]
    of_row: Callable[[Any], Any]


class ValueAtPlace(NamedTuple):
    """A value, and its place among those that are given."""

    place: int
    value: Any


class _PostgresCall(NamedTuple):
    """A compiled statement, and its parameters: the places of columns, and which are one value."""

    sql: str
    parameters: Sequence[tuple[int, bool]]

    def with_columns(self, columns: Sequence[list[Any]]) -> DriverCall:
        """The call for rows with these columns."""
        # The first is an array in any case, because it says how many rows there are.
        arrays = [columns[0], *map(_array, columns[1:])]
        given = [columns[place][0] if one else arrays[place] for place, one in self.parameters]
        return self.sql, tuple(given)


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

    def run(self, tx: Connection, rows: Sequence[Any]) -> Sequence[Row]:
        """Run it for all rows; the rows that it returns, in no particular order."""
        found: list[Row] = []
        for sql, given in self._cut_up(tx.dialect, rows):
            found += execute(tx, sql, given)
        if not self._returns:
            return found
        return convert_rows(found, conversions(self._returns, tx.dialect))

    def _cut_up(self, dialect: Dialect, rows: Sequence[Any]) -> Iterable[DriverCall]:
        if not rows:
            return ()
        if dialect.name not in self._calls_on:
            make = self._on_postgres if dialect.name == "postgresql" else self._on_sqlite
            self._calls_on[dialect.name] = make(dialect)
        return self._calls_on[dialect.name](rows)

    def _on_postgres(self, dialect: Dialect) -> Calls:
        takers = [_taker(each, dialect) for each in self._given.values()]
        none_same = (False,) * len(takers)
        by_same: dict[tuple[bool, ...], _PostgresCall] = {}

        def calls(rows: Sequence[Any]) -> Iterable[DriverCall]:
            columns = [take(rows) for take in takers]
            same = none_same
            if len(rows) >= _SAME_FROM_ROWS:
                same = (False, *map(_is_same, columns[1:]))
            if same not in by_same and len(by_same) >= VARIANTS_MAX:
                same = none_same
            if same not in by_same:
                by_same[same] = self._compile_for_postgres(dialect, same)
            return [by_same[same].with_columns(columns)]

        return calls

    def _compile_for_postgres(self, dialect: Dialect, same: Sequence[bool]) -> "_PostgresCall":
        """The statement with an array for each column, and one value for those that are `same`."""
        each = list(zip(self._given.items(), same, strict=True))
        arrays = [(name, kind) for (name, (kind, _)), one in each if not one]
        rows = (
            func.unnest(*[bindparam(name, type_=postgresql.ARRAY(kind)) for name, kind in arrays])
            .table_valued(*[column(name, kind) for name, kind in arrays])
            .render_derived(name="rows" if any(same) else "given")
        )
        given: FromClause = rows
        if any(same):
            given = select(
                *[
                    cast(bindparam(name, type_=kind), kind).label(name) if one else rows.c[name]
                    for (name, (kind, _)), one in each
                ]
            ).subquery("given")
        compiled = self._build(given, dialect).compile(dialect=dialect)
        names = list(self._given)
        # In the order of the parameters, which SQLAlchemy's types do not tell of.
        ordered: Sequence[str] = getattr(compiled, "positiontup", None) or ()
        places = [names.index(name) for name in ordered]
        return _PostgresCall(str(compiled), [(place, same[place]) for place in places])

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
    """The columns of `ValueAtPlace` rows: the place, and an object with these attributes."""
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


def _is_same(values: list[Any]) -> bool:
    return values.count(values[0]) == len(values)


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
