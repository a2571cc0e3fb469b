"""Parses values that people type on the command line."""

import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime

from headgate.base.encoding import from_json
from headgate.base.errors import InvalidInput


def parse_day(field: str, text: str) -> date:
    """Parse a day, such as 2024-01-31."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(field, f"{text!r} is not a day, such as 2024-01-31") from None


def parse_time(field: str, text: str) -> datetime:
    """Parse a time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            field, f"{text!r} is not a time, such as {datetime(2024, 1, 31, tzinfo=UTC)}"
        ) from None


def parse_json_object(field: str, text: str) -> dict[str, object]:
    """Parse a JSON object."""
    try:
        value = from_json(text)
    except ValueError as error:
        raise InvalidInput(field, f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(field, 'must be a JSON object, such as {"clear": true}')
    return value


def read_ids(given: Iterable[str]) -> list[str]:
    """Return the ids that were given; `-` stands for those on stdin, one a line."""
    return [one for each in given for one in (_lines() if each == "-" else [each])]


def _lines() -> list[str]:
    return [line.strip() for line in sys.stdin if line.strip()]
