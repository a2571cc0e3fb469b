"""Methods of ports, made from plain functions on a connection; each call is one transaction.

A port on SQL is a class whose methods are made with these helpers. A store function takes the
connection, then, for a `_timed` helper, the store's time, then its own arguments.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.moment import Moment

P = ParamSpec("P")
T = TypeVar("T")

Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
Plain = Callable[Concatenate[Connection, P], T]
Timed = Callable[Concatenate[Connection, Moment, P], T]


class SqlPort:
    """A port of the engine on a SQL database."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        self.database = database


def reads(function: Plain[P, T]) -> Method[P, T]:
    """A method that runs `function` in one read-only transaction."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        return await self.database.read(lambda tx: function(tx, *args, **named))

    return method


def autocommit_reads(function: Plain[P, T]) -> Method[P, T]:
    """As `reads`, for a function of one statement, which needs no transaction."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        return await self.database.autocommit(
            lambda tx: function(tx, *args, **named), read_only=True
        )

    return method


def writes(function: Plain[P, T]) -> Method[P, T]:
    """A method that runs `function` in one transaction."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        return await self.database.write(lambda tx: function(tx, *args, **named))

    return method


def reads_timed(function: Timed[P, T]) -> Method[P, T]:
    """As `reads`, for a function that takes the store's time."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        database = self.database
        return await database.read(lambda tx: function(tx, database.moment(), *args, **named))

    return method


def autocommit_reads_timed(function: Timed[P, T]) -> Method[P, T]:
    """As `reads_timed`, for a function of one statement, which needs no transaction."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        database = self.database
        return await database.autocommit(
            lambda tx: function(tx, database.moment(), *args, **named), read_only=True
        )

    return method


def autocommits_timed(function: Timed[P, T]) -> Method[P, T]:
    """As `writes_timed`, for a function of one statement, which needs no transaction."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        database = self.database
        return await database.autocommit(lambda tx: function(tx, database.moment(), *args, **named))

    return method


def writes_timed(function: Timed[P, T]) -> Method[P, T]:
    """As `writes`, for a function that takes the store's time, read when it runs."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        database = self.database
        return await database.write(lambda tx: function(tx, database.moment(), *args, **named))

    return method
