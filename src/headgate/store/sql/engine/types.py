"""Column types that behave alike on SQLite and Postgres.

They convert the values of every row, so each conversion is one function, made once per column.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import BigInteger, Dialect, Text
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.types import TypeDecorator, TypeEngine

from headgate.base.encoding import to_json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Convert = Callable[[Any], Any]
T = TypeVar("T")


class _Converted(TypeDecorator[T], Generic[T]):
    """A type with a conversion function for each direction; both keep None."""

    impl: type[TypeEngine[Any]] = Text
    cache_ok = True

    def into(self, dialect: Dialect) -> Convert:
        """The conversion from Python to the database."""
        raise NotImplementedError

    def out_of(self, dialect: Dialect) -> Convert:
        """The conversion from the database to Python."""
        raise NotImplementedError

    def bind_processor(self, dialect: Dialect) -> Convert:
        """Our conversion, then that of the database's own type."""
        into = self.into(dialect)
        then = self.load_dialect_impl(dialect).dialect_impl(dialect).bind_processor(dialect)
        return into if then is None else lambda value: then(into(value))

    def result_processor(self, dialect: Dialect, coltype: object) -> Convert:
        """The conversion of the database's own type, then ours."""
        out_of = self.out_of(dialect)
        first = (
            self.load_dialect_impl(dialect).dialect_impl(dialect).result_processor(dialect, coltype)
        )
        return out_of if first is None else lambda value: out_of(first(value))


class UtcTime(_Converted[datetime]):
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

    def into(self, dialect: Dialect) -> Convert:
        """The conversion of an aware datetime; a naive one is a programming error."""
        return _aware if dialect.name == "postgresql" else _to_microseconds

    def out_of(self, dialect: Dialect) -> Convert:
        """The conversion to an aware datetime in UTC."""
        return _in_utc if dialect.name == "postgresql" else _from_microseconds


def _aware(value: datetime | None) -> datetime | None:
    assert value is None or value.tzinfo is not None, "naive datetime"
    return value


def _to_microseconds(value: datetime | None) -> int | None:
    # Subtracting from an aware datetime raises where `value` is naive.
    return None if value is None else (value - _EPOCH) // _MICROSECOND


# Cached, because the rows of one statement have the same time, and a batch has few different ones.
@lru_cache(maxsize=1024)
def _from_microseconds(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def _in_utc(value: datetime | None) -> datetime | None:
    return value if value is None or value.tzinfo is UTC else value.astimezone(UTC)


class JsonOf(_Converted[T], Generic[T]):
    """A typed value as JSON: jsonb on Postgres, text on SQLite, decoded straight into its type."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        """Store values of the type `kind`."""
        super().__init__()
        self.kind = kind

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column's type in this database."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(JSONB(none_as_null=True))
        return dialect.type_descriptor(Text())

    def bind_processor(self, dialect: Dialect) -> Convert:
        """The conversion to JSON text, which both drivers take."""
        return lambda value: None if value is None else to_json(value)

    def out_of(self, dialect: Dialect) -> Convert:
        """The conversion from JSON; on Postgres the engine's deserializer has read the text."""
        kind, decode = self.kind, msgspec.json.Decoder(self.kind).decode
        if dialect.name == "postgresql":
            return lambda value: None if value is None else msgspec.convert(value, kind)
        return lambda value: None if value is None else decode(value)


Word = TypeVar("Word", bound=StrEnum)


class OneOf(_Converted[Word], Generic[Word]):
    """A member of an enum, stored as its word."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[Word]) -> None:
        """Store members of `words`."""
        super().__init__()
        self.words = words

    def into(self, dialect: Dialect) -> Convert:
        """The conversion of a member, or of its word, to the word."""
        return lambda value: None if value is None else str(value)

    def out_of(self, dialect: Dialect) -> Convert:
        """The conversion of a word to the member."""
        members: dict[str | None, Word | None] = {word.value: word for word in self.words}
        return (members | {None: None}).__getitem__
