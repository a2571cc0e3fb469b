"""The system's own table, and its SQL: plain functions that `app.read` and `app.write` run.

Its migrations lie beside this file. Whose a price is, is part of every statement.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    ClauseElement,
    Column,
    Connection,
    Dialect,
    FromClause,
    Index,
    Integer,
    MetaData,
    Numeric,
    Row,
    Table,
    Text,
    and_,
    delete,
    literal,
    select,
    tuple_,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from headgate.systems.price_history.prices import Price
from headgate.toolkit.tables import BatchStatement, UtcTime, by_key, insert_many

#: The most rows that one transaction erases, so that others get their turn between.
ERASED_AT_ONCE = 2_000


class ExactNumber(TypeDecorator[Decimal]):
    """A decimal number that is never rounded: numeric on Postgres, its text on SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column's type in this database."""
        return dialect.type_descriptor(Numeric() if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Any:
        """The conversion from Python to the database."""
        return value if value is None or dialect.name == "postgresql" else f"{value:f}"

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        """The conversion from the database to Python."""
        return None if value is None else Decimal(value)


metadata = MetaData()
#: The key is in the order in which prices are listed.
prices = Table(
    "price_history_prices",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("product_id", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("scraped_at", UtcTime, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("price", ExactNumber, nullable=False),
    #: The item's JSON, exactly as it was sent.
    Column("content", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("received_at", UtcTime, nullable=False),
    # For those of one source.
    Index(
        "price_history_prices_by_source",
        "user_id",
        "source_id",
        "product_id",
        "scraped_at",
        "run_id",
    ),
)
_KEY = [column.name for column in prices.primary_key]
_ORDER = [prices.c.product_id, prices.c.source_id, prices.c.scraped_at, prices.c.run_id]


def _select_hashes(given: FromClause, dialect: Dialect) -> ClauseElement:
    same = [prices.c[name] == given.c[name] for name in _KEY]
    return select(given.c.place, prices.c.hash).select_from(given.join(prices, and_(*same)))


_hashes = BatchStatement(
    by_key({name: prices.c[name].type for name in _KEY} | {"place": Integer()}), _select_hashes
)
_insert = insert_many(
    prices,
    [column.name for column in prices.columns],
    lambda insert: insert.on_conflict_do_nothing(),
    order_by="place",
)


def store(tx: Connection, user_id: str, found: Sequence[Price], now: datetime) -> list[str | None]:
    """Store those prices of a user that are not there; what is there is not changed.

    Returns the hash that is stored for each afterwards; None if it was deleted at this moment.
    """
    # The first of two with one identity is stored. They are inserted in one order by whoever sends
    # them, so that two transactions with the same prices do not wait for each other.
    first = {each.identity: each for each in reversed(found)}
    ordered = [first[identity] for identity in sorted(first)]
    _insert.run(tx, [_row(user_id, each, place, now) for place, each in enumerate(ordered)])
    asked = [_row(user_id, each, place, now) for place, each in enumerate(found)]
    hashes = {place: row_hash for place, row_hash in _hashes.run(tx, asked)}
    return [hashes.get(place) for place in range(len(found))]


def _row(user_id: str, price: Price, place: int, now: datetime) -> dict[str, Any]:
    return {
        "user_id": user_id,
        "product_id": price.product_id,
        "source_id": price.source_id,
        "scraped_at": price.scraped_at,
        "run_id": price.run_id,
        "price": price.price,
        "content": price.content,
        "hash": price.hash,
        "received_at": now,
        "place": place,
    }


def list_prices(
    tx: Connection,
    user_id: str,
    *,
    product_id: str | None,
    source_id: str | None,
    after: tuple[str, str, datetime, str] | None,
    limit: int,
) -> Sequence[Row[Any]]:
    """A user's prices in the order of product, source, time and run."""
    query = select(prices).where(prices.c.user_id == user_id)
    given = {"product_id": product_id, "source_id": source_id}
    for name, value in given.items():
        if value is not None:
            query = query.where(prices.c[name] == value)
    # A column that is given is no part of the order, so that an index has exactly this order.
    order = [column for column in _ORDER if given.get(column.name) is None]
    if after is not None:
        values = {
            each.name: literal(value, each.type) for each, value in zip(_ORDER, after, strict=True)
        }
        query = query.where(tuple_(*order) > tuple_(*[values[each.name] for each in order]))
    return tx.execute(query.order_by(*order).limit(limit)).all()


def erase_some(tx: Connection, user_id: str) -> int:
    """Delete some prices of a user; returns how many: 0 when none is left."""
    key = [prices.c[name] for name in _KEY]
    some = select(*key).where(prices.c.user_id == user_id).limit(ERASED_AT_ONCE)
    return tx.execute(delete(prices).where(tuple_(*key).in_(some))).rowcount
