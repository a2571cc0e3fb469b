"""Column types that behave alike on SQLite and Postgres."""

from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar, cast

import msgspec
from sqlalchemy import BigInteger, Dialect, Text
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.types import TypeDecorator, TypeEngine

from headgate.base.encoding import to_json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UtcTime(TypeDecorator[datetime]):
    """An aware datetime: timestamptz on Postgres, whole microseconds since 1970 on SQLite.

    SQLite has no time type. An integer compares, sorts and indexes as time does, and loses nothing.
    """

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column's type in this database."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(BigInteger())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Into the database; a naive datetime is a programming error."""
        if value is None:
            return None
        assert value.tzinfo is not None, "naive datetime"
        return value if dialect.name == "postgresql" else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Out of the database, always in UTC."""
        if value is None:
            return None
        if dialect.name == "postgresql":
            at: datetime = value
            return at.astimezone(UTC)
        return _EPOCH + timedelta(microseconds=value)


T = TypeVar("T")


class JsonOf(TypeDecorator[T], Generic[T]):
    """A typed value as JSON: jsonb on Postgres, text on SQLite, decoded straight into its type."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        """Hold values of the type `kind`."""
        super().__init__()
        self.kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column's type in this database."""
        return dialect.type_descriptor(
            JSONB(none_as_null=True) if dialect.name == "postgresql" else Text()
        )

    def process_bind_param(self, value: T | None, dialect: Dialect) -> Any:
        """Into the database; None is NULL. Postgres's own type writes the text."""
        if value is None:
            return None
        return msgspec.to_builtins(value) if dialect.name == "postgresql" else to_json(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> T | None:
        """Out of the database. Postgres's own type has read the text."""
        if value is None:
            return None
        if dialect.name == "postgresql":
            return cast(T, msgspec.convert(value, self.kind))
        return cast(T, self._decode(value))
