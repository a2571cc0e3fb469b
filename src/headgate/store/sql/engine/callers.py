"""Statements on a connection that belongs to the caller: SQLAlchemy's, sqlite3's or psycopg's.

The caller has begun a transaction with its own tables and commits it itself, so nothing here
begins, commits or rolls back. A statement is compiled once for each driver.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from headgate.base.errors import InvalidInput
from headgate.store.sql.engine.prepared import PreparedStatement, Row, Statement

_SQLITE: Dialect = SQLiteDialect_pysqlite()
_PSYCOPG: Dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call]


class CallerTransaction(Protocol):
    """A transaction of the caller, as far as a statement needs it."""

    @property
    def dialect(self) -> Dialect:
        """The database and its driver."""
        ...

    def execute(self, sql: str, values: Any) -> Sequence[Row]:
        """Run a statement with its driver's own parameters; returns its rows."""
        ...


class _OfSqlAlchemy:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect

    def execute(self, sql: str, values: Any) -> Sequence[Row]:
        given = values if isinstance(values, dict) else tuple(values)
        result = self._connection.exec_driver_sql(sql, given)
        return result.all() if result.returns_rows else ()


class _OfDriver:
    def __init__(self, open_cursor: Callable[[], Any], dialect: Dialect) -> None:
        self._open_cursor = open_cursor
        self.dialect = dialect

    def execute(self, sql: str, values: Any) -> Sequence[Row]:
        cursor = self._open_cursor()
        try:
            cursor.execute(sql, values)
            rows: Sequence[Row] = () if cursor.description is None else cursor.fetchall()
        finally:
            cursor.close()
        return rows


def caller_transaction(tx: Any) -> CallerTransaction:
    """Return the caller's transaction; raises InvalidInput if there is none on `tx`.

    `tx` is a SQLAlchemy connection or session, or a connection of sqlite3 or psycopg.
    """
    match tx:
        case Connection():
            return _of_sqlalchemy(tx)
        case Session() | scoped_session():
            return _of_sqlalchemy(tx.connection())
        case sqlite3.Connection():
            if _commits_by_itself(tx) and not tx.in_transaction:
                raise _no_transaction()
            # Not the connection's own cursor: that may make anything of a row.
            return _OfDriver(lambda: sqlite3.Cursor(tx), _SQLITE)
        case AsyncConnection() | AsyncSession():
            raise InvalidInput(
                "tx", "it is asynchronous: await tx.run_sync(lambda tx: outbox.enqueue(tx, …))"
            )
    driver = type(tx).__module__.partition(".")[0]
    if driver not in ("psycopg", "psycopg2"):
        raise InvalidInput(
            "tx",
            f"{type(tx).__name__} is not a connection: pass one of SQLAlchemy, sqlite3 or psycopg, "
            "or a SQLAlchemy session",
        )
    if "Async" in type(tx).__name__:
        raise InvalidInput("tx", "psycopg's asynchronous connection is not supported")
    if tx.autocommit and tx.info.transaction_status == 0:
        raise _no_transaction()
    return _OfDriver(lambda: _plain_cursor(tx, driver), _PSYCOPG)


def _of_sqlalchemy(connection: Connection) -> CallerTransaction:
    of_engine = getattr(connection.dialect, "_on_connect_isolation_level", None)
    level = connection.get_execution_options().get("isolation_level", of_engine)
    # Somebody may have begun a transaction by hand, as our own SQLite database does.
    raw = connection.connection.dbapi_connection
    if level == "AUTOCOMMIT" and not getattr(raw, "in_transaction", False):
        raise _no_transaction()
    return _OfSqlAlchemy(connection)


def _commits_by_itself(connection: sqlite3.Connection) -> bool:
    """Whether a connection of sqlite3 begins no transaction by itself."""
    # Since Python 3.12 either of two attributes may say so; True, False, or -1 for the older one.
    mode = getattr(connection, "autocommit", -1)
    return connection.isolation_level is None if mode == -1 else bool(mode)


def _plain_cursor(connection: Any, driver: str) -> Any:
    """A cursor whose rows are tuples, whatever the connection's own make of a row."""
    if driver == "psycopg2":
        return connection.cursor(cursor_factory=import_module("psycopg2.extensions").cursor)
    rows = import_module("psycopg.rows")
    return import_module("psycopg").Cursor(connection, row_factory=rows.tuple_row)


def _no_transaction() -> InvalidInput:
    return InvalidInput(
        "tx",
        "the connection commits every statement by itself, so your rows and the message would not "
        "be written together: begin a transaction first",
    )


class CallerStatement:
    """A statement with named parameters, for a caller's transaction."""

    def __init__(self, build: Callable[[Dialect], Statement]) -> None:
        """Run the statement that `build` makes for a database."""
        self._build = build
        self._prepared: dict[type[Dialect], PreparedStatement] = {}

    def run(self, tx: CallerTransaction, values: Mapping[str, Any]) -> Sequence[Row]:
        """Run it; returns its rows, if it has any."""
        # By its class: each of the caller's engines has a dialect of its own.
        kind = type(tx.dialect)
        if kind not in self._prepared:
            self._prepared[kind] = PreparedStatement(self._build(tx.dialect), tx.dialect)
        return self._prepared[kind].run(tx, values, _execute)


def _execute(tx: CallerTransaction, sql: str, values: Any) -> Sequence[Row]:
    return tx.execute(sql, values)
