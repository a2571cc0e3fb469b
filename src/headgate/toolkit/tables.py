"""Column types and inserts for a system's own tables; they behave alike on both databases."""

from headgate.store.sql.statements import Insert, insert_into
from headgate.store.sql.types import JsonOf, OneOf, UtcTime

__all__ = ["Insert", "JsonOf", "OneOf", "UtcTime", "insert_into"]
