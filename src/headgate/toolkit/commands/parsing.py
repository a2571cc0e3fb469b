"""Parses values that people type on the command line: days, times, JSON, and ids from stdin."""

import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime

import typer

from headgate.base.clock import SystemClock
from headgate.base.durations import parse_duration
from headgate.base.encoding import from_json
from headgate.base.errors import InvalidInput

#: What stands for the ids on stdin.
STDIN = "-"


def parse_day(text: str) -> date:
    """Parse a day, such as 2024-01-31."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day, such as 2024-01-31") from None


def parse_time(text: str) -> datetime:
    """Parse a time, a day, or how long ago it was; without a zone it is in UTC."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        return _ago(text)
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)


def _ago(text: str) -> datetime:
    try:
        return SystemClock().now() - parse_duration("time", text)
    except InvalidInput:
        raise typer.BadParameter(
            f"{text!r} is not a time, such as 2024-01-31, 2024-01-31T08:00+01:00, or 24h for a day "
            "ago"
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


def read_ids(given: Iterable[str], what: str = "job") -> list[str]:
    """Return the ids that were given; `-` stands for those on stdin, one a line.

    The first column of a line counts, so the output of a list can be piped in.
    """
    ids = [one for each in given for one in (_lines() if each == STDIN else [each])]
    if not ids:
        raise InvalidInput(what, f"stdin contained no {what}'s id")
    return ids


def _lines() -> list[str]:
    return [line.split()[0] for line in sys.stdin if line.strip()]
