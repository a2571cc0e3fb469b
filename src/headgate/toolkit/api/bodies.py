"""Checks the JSON of a request body before anything uses it.

Parsers differ on duplicate names, on numbers beyond 64 bits and on NaN; a database does not store
NUL or half a surrogate pair. A body that two parsers could read differently is refused.
"""

import json
import math
from collections.abc import Iterable

from fastapi import Request

from headgate.toolkit.api.problems import ProblemError

DEPTH_MAX = 20
#: The digits of a 64-bit number.
_DIGITS_MAX = 19


async def check_body(request: Request) -> None:
    """Refuse a body that is not JSON, or that two parsers could read differently."""
    body = await request.body()
    if not body:
        return
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ProblemError("unsupported_media_type", "the body must be application/json")
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_float,
        )
        _walk(value)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ProblemError("malformed_json", f"the body cannot be read: {reason}") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a name occurs twice in an object")
    return unique


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > _DIGITS_MAX:
        raise ValueError("a number is too large")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    return value


def _walk(value: object) -> None:
    """Check every string, and the depth of the nesting; without recursion."""
    pending: list[tuple[object, int]] = [(value, 1)]
    while pending:
        each, depth = pending.pop()
        if depth > DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        inside: Iterable[object] = ()
        if isinstance(each, str):
            _text(each)
        elif isinstance(each, dict):
            inside = [*each.keys(), *each.values()]
        elif isinstance(each, list):
            inside = each
        pending += [(part, depth + 1) for part in inside]


def _text(value: str) -> None:
    if "\0" in value:
        raise ValueError("a string contains the character NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("a string is not valid Unicode") from None
