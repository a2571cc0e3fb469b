"""From a plain function on a connection to a method of a port: one transaction around each call.

A port on SQL is a class whose methods are made by these from the store's functions. A function
takes the connection, then, if it is a `_timed` one, the store's time, then its own arguments.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from headgate.store.sql.database import Database
from headgate.store.sql.moment import Moment

P = ParamSpec("P")
T = TypeVar("T")

Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
Plain = Callable[Concatenate[Connection, P], T]
Timed = Callable[Concatenate[Connection, Moment, P], T]


class SqlPort:
    """Something that the engine asks for, kept in a SQL database."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        self.database = database


def reads(function: Plain[P, T]) -> Method[P, T]:
    """A method that runs `function` in one read-only transaction."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        return await self.database.read(lambda tx: function(tx, *args, **named))

    return method


def writes(function: Plain[P, T]) -> Method[P, T]:
    """A method that runs `function` in one transaction."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        return await self.database.write(lambda tx: function(tx, *args, **named))

    return method


def reads_timed(function: Timed[P, T]) -> Method[P, T]:
    """As `reads`, for a function that is given the store's time."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        database = self.database
        return await database.read(lambda tx: function(tx, database.moment(), *args, **named))

    return method


def autocommits_timed(function: Timed[P, T]) -> Method[P, T]:
    """As `writes_timed`, for a function of one statement: nothing is needed around it."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        database = self.database
        return await database.autocommit(lambda tx: function(tx, database.moment(), *args, **named))

    return method


def writes_timed(function: Timed[P, T]) -> Method[P, T]:
    """As `writes`, for a function that is given the store's time, read when it runs."""

    @wraps(function)
    async def method(self: SqlPort, /, *args: P.args, **named: P.kwargs) -> T:
        database = self.database
        return await database.write(lambda tx: function(tx, database.moment(), *args, **named))

    return method
