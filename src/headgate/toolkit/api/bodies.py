"""JSON from outside, before anything looks at it: one reading of it only, and nothing absurd.

Parsers differ on names given twice, on numbers beyond 64 bits, on NaN; a database does not store
NUL or half a surrogate pair. Whatever could be read in two ways is refused.
"""

import json
import math
from collections.abc import Iterable

from fastapi import Request

from headgate.toolkit.api.problems import ProblemError

DEPTH_MAX = 20
#: The digits of a 64-bit number.
_DIGITS_MAX = 19


async def check(request: Request) -> None:
    """Refuse a body that is not JSON, or not JSON that everybody reads alike."""
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
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ProblemError("malformed_json", f"the body cannot be read: {said}") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name is given twice")
    return made


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
    """Look at every text, and at how deep it goes; without recursion."""
    ahead: list[tuple[object, int]] = [(value, 1)]
    while ahead:
        each, depth = ahead.pop()
        if depth > DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        inside: Iterable[object] = ()
        if isinstance(each, str):
            _text(each)
        elif isinstance(each, dict):
            inside = [*each.keys(), *each.values()]
        elif isinstance(each, list):
            inside = each
        ahead += [(part, depth + 1) for part in inside]


def _text(value: str) -> None:
    if "\0" in value:
        raise ValueError("a text holds the character NUL")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("a text is not Unicode")
