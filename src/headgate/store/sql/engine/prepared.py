"""Statements that are compiled once and run on the driver's own cursor.

They are written in SQLAlchemy Core, as all statements are. For those that run for every submit,
claim, extension and settle, what SQLAlchemy does around each execution took longer than the
database itself. Here a statement is compiled once for a dialect, together with the conversions of
its parameters and columns, and each run is one call of the driver. Both drivers keep it prepared.

Transactions, errors and lost connections stay SQLAlchemy's business: the cursor is that of its
connection, and it gets every error to translate. Where somebody listens to the statements of an
engine, they go the usual way, so that they are heard.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import SelectBase
from sqlalchemy.types import TypeEngine

Statement = SelectBase | UpdateBase
Row = Sequence[Any]
_Convert = Callable[[Any], Any]
#: Runs SQL of a driver, with values of the driver, on some connection; returns all rows.
Execute = Callable[[Any, str, Any], Sequence[Row]]
#: The columns whose values are converted, by their place.
Conversions = Sequence[tuple[int, _Convert]]

#: The most compiled statements; each is for a dialect and for a number of syncs.
_COMPILED_MAX = 500


def execute(tx: Connection, sql: str, values: Sequence[Any]) -> Sequence[Row]:
    """Run SQL of the driver with values of the driver; returns all rows."""
    if tx.dispatch.before_cursor_execute:
        result = tx.exec_driver_sql(sql, tuple(values))
        return result.all() if result.returns_rows else ()
    cursor = tx.connection.cursor()
    try:
        cursor.execute(sql, values)
        # A cursor without rows has nothing to describe.
        rows: Sequence[Row] = cursor.fetchall() if cursor.description else ()
        cursor.close()
    except BaseException as error:
        # As in `Connection.execute`, which begins: else SQLAlchemy rolls back what others began.
        if not tx.in_transaction():
            tx.begin()
        # The same: wraps the error, and replaces the pool if the server is lost.
        tx._handle_dbapi_exception(error, sql, None, cursor, None)
    return rows


class PreparedStatement:
    """A statement in the SQL of one dialect, with the conversions of its values."""

    def __init__(self, statement: Statement, dialect: Dialect) -> None:
        """Compile `statement`, whose parameters may not be lists that change their length."""
        compiled = statement.compile(dialect=dialect)
        self.sql = str(compiled)
        assert "POSTCOMPILE" not in self.sql, f"a list as a parameter: {self.sql}"
        fixed = compiled.params
        assert isinstance(compiled, SQLCompiler)
        names = list(compiled.positiontup or compiled.binds)
        #: Of a driver whose parameters have names.
        self._names = None if compiled.positional else names
        #: In the order of the parameters: the name, its conversion, and the value if it has one.
        self._parameters: list[tuple[str, _Convert | None, Any]] = []
        for name in names:
            bind = compiled.binds[name]
            convert = bind_processor(bind.type, dialect)
            value = fixed[name]
            if not bind.required:
                value = value if convert is None else convert(value)
            self._parameters.append((name, convert, value))
        self._conversions = conversions(
            [column.type for column in statement.exported_columns], dialect
        )

    def run(self, tx: Any, binds: Mapping[str, Any], execute: Execute = execute) -> Sequence[Row]:
        """Run it with these values, by default on a connection of our own; returns all rows."""
        values = []
        for name, convert, value in self._parameters:
            if name in binds:
                value = binds[name]
                if convert is not None:
                    value = convert(value)
            values.append(value)
        given = values if self._names is None else dict(zip(self._names, values, strict=True))
        rows = execute(tx, self.sql, given)
        return convert_rows(rows, self._conversions) if rows and self._conversions else rows


@lru_cache(maxsize=_COMPILED_MAX)
def prepare(statement: Statement, dialect: Dialect) -> PreparedStatement:
    """The statement, compiled when it is first asked for; `statement` itself is built once too."""
    return PreparedStatement(statement, dialect)


def conversions(kinds: Iterable[TypeEngine[Any]], dialect: Dialect) -> Conversions:
    """The conversions from the driver to columns of these types."""
    found = [kind.dialect_impl(dialect).result_processor(dialect, None) for kind in kinds]
    return [(place, each) for place, each in enumerate(found) if each is not None]


def convert_rows(rows: Iterable[Row], conversions: Conversions) -> list[Row]:
    """Rows of the driver as rows of Python."""
    converted: list[Row] = []
    for row in rows:
        values = list(row)
        for place, convert in conversions:
            values[place] = convert(values[place])
        converted.append(values)
    return converted


def bind_processor(kind: TypeEngine[Any], dialect: Dialect) -> _Convert | None:
    """The conversion from Python to the driver; None if there is nothing to convert."""
    return kind.dialect_impl(dialect).bind_processor(dialect)
