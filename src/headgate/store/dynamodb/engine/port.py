"""Methods of ports, made from plain functions on a table, as those of SQL are on a connection.

A store function takes the table, which tells the time too, and then its own arguments.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from headgate.store.dynamodb.engine.table import DynamoTable

P = ParamSpec("P")
T = TypeVar("T")


class DynamoPort:
    """A port of the engine on a table of DynamoDB."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open."""
        self.table = table


def on_table(
    function: Callable[Concatenate[DynamoTable, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method that calls `function` with the table."""

    @wraps(function)
    async def method(self: DynamoPort, /, *args: P.args, **named: P.kwargs) -> T:
        return await function(self.table, *args, **named)

    return method
