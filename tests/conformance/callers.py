"""The ways in which an application has a transaction: SQLAlchemy's, sqlite3's and psycopg's own."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, scoped_session, sessionmaker

#: How long a connection of sqlite3 waits for another's transaction.
BUSY_S = 30.0


class Caller(NamedTuple):
    """An application with its connection, and a table of its own."""

    #: What it passes to `enqueue`.
    tx: Any
    execute: Callable[[str], Any]
    commit: Callable[[], None]
    rollback: Callable[[], None]


@contextmanager
def sqlalchemy_engine(address: str, **options: Any) -> Iterator[Any]:
    """An engine of the application's own."""
    url = make_url(address)
    if url.drivername.startswith("postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(url, **options)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _connection(address: str) -> Iterator[Caller]:
    with sqlalchemy_engine(address) as engine, engine.connect() as tx:
        yield Caller(tx, lambda sql: tx.execute(text(sql)), tx.commit, tx.rollback)


@contextmanager
def _session(address: str) -> Iterator[Caller]:
    with sqlalchemy_engine(address) as engine, Session(engine) as tx:
        yield Caller(tx, lambda sql: tx.execute(text(sql)), tx.commit, tx.rollback)


@contextmanager
def _scoped_session(address: str) -> Iterator[Caller]:
    with sqlalchemy_engine(address) as engine:
        tx = scoped_session(sessionmaker(engine))
        try:
            yield Caller(tx, lambda sql: tx.execute(text(sql)), tx.commit, tx.rollback)
        finally:
            tx.remove()


def sqlite_file(address: str) -> str:
    """The path in an address of SQLite."""
    return address.removeprefix("sqlite:///")


@contextmanager
def _sqlite3(address: str) -> Iterator[Caller]:
    tx = sqlite3.connect(sqlite_file(address), timeout=BUSY_S, check_same_thread=False)
    try:
        yield Caller(tx, tx.execute, tx.commit, tx.rollback)
    finally:
        tx.close()


@contextmanager
def _sqlite3_with_dicts(address: str) -> Iterator[Caller]:
    with _sqlite3(address) as caller:
        caller.tx.row_factory = lambda cursor, row: dict(
            zip([each[0] for each in cursor.description], row, strict=True)
        )
        yield caller


@contextmanager
def _psycopg(address: str, **options: Any) -> Iterator[Caller]:
    with psycopg.connect(address, **options) as tx:
        yield Caller(tx, tx.execute, tx.commit, tx.rollback)


@contextmanager
def _psycopg_with_dicts(address: str) -> Iterator[Caller]:
    with _psycopg(address, row_factory=dict_row) as caller:
        yield caller


_ANY: dict[str, Callable[[str], Any]] = {
    "connection": _connection,
    "session": _session,
    "scoped session": _scoped_session,
}
#: Every way, by database.
WAYS: dict[str, dict[str, Callable[[str], Any]]] = {
    "sqlite": {**_ANY, "sqlite3": _sqlite3, "sqlite3 with dicts": _sqlite3_with_dicts},
    "postgres": {**_ANY, "psycopg": _psycopg, "psycopg with dicts": _psycopg_with_dicts},
}
#: Each database's own driver.
PLAIN = {"sqlite": "sqlite3", "postgres": "psycopg"}
