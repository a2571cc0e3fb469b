"""A statement compiled once and run with many rows.

SQLAlchemy builds a dictionary of parameters for every row of an executemany. On the one path that
every chunk of every job takes, that showed at the top of the profile; here a row is one tuple.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import BindParameter, Connection, Dialect, UpdateBase

Row = dict[str, Any]


class Prepared:
    """An INSERT or UPDATE with named parameters, for rows that hold a value for each."""

    def __init__(self, statement: UpdateBase) -> None:
        """Compile `statement` when it is first run, once for each database."""
        self._statement = statement
        self._compiled: dict[str, tuple[str, Callable[[Row], tuple[Any, ...]]]] = {}

    def run(self, tx: Connection, rows: Sequence[Row]) -> None:
        """Run it for every row."""
        sql, to_tuple = self._for(tx.dialect)
        tx.exec_driver_sql(sql, [to_tuple(row) for row in rows])

    def _for(self, dialect: Dialect) -> tuple[str, Callable[[Row], tuple[Any, ...]]]:
        if dialect.name not in self._compiled:
            compiled = self._statement.compile(dialect=dialect)
            names = compiled.positiontup
            assert names is not None, "both drivers take parameters by position"
            steps = [_step(compiled.binds[name], name, dialect) for name in names]
            self._compiled[dialect.name] = (str(compiled), _converter(steps))
        return self._compiled[dialect.name]


Step = Callable[[Row], Any]


def _step(bind: BindParameter[Any], name: str, dialect: Dialect) -> Step:
    """How one parameter is taken from a row; one that the statement itself fixes stays as it is."""
    convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
    if not bind.required:
        fixed = bind.effective_value if convert is None else convert(bind.effective_value)
        return lambda row: fixed
    if convert is None:
        return itemgetter(name)
    return lambda row: convert(row[name])


def _converter(steps: Sequence[Step]) -> Callable[[Row], tuple[Any, ...]]:
    return lambda row: tuple([step(row) for step in steps])
