"""Column types and statements for a system's own tables; they behave alike on both databases."""

from headgate.store.sql.engine.many import BatchStatement, by_key, insert_many
from headgate.store.sql.engine.statements import Insert, insert_into
from headgate.store.sql.engine.types import JsonOf, OneOf, UtcTime

__all__ = [
    "BatchStatement",
    "Insert",
    "JsonOf",
    "OneOf",
    "UtcTime",
    "by_key",
    "insert_into",
    "insert_many",
]
