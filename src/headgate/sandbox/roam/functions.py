"""This module has the functions and predicates that a query may call, with Clojure's errors."""

import operator
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from headgate.base.encoding import Json


class BadQuery(Exception):
    """The query is not valid, or uses more than the sandbox supports."""


def call(name: str, args: list[Json]) -> Json:
    """Call a function or a predicate; raises BadQuery."""
    function = FUNCTIONS.get(name)
    if function is None:
        raise BadQuery(f"Unable to resolve symbol: {name} in this context")
    try:
        return function(*args)
    except TypeError:
        raise BadQuery(f"Wrong number of args ({len(args)}) passed to: {name}") from None
    except re.error:
        raise BadQuery("java.util.regex.PatternSyntaxException: the pattern is not valid") from None


def class_of(value: Json) -> str:
    """The name of a value's class in Clojure, for messages."""
    names = {
        str: "java.lang.String",
        bool: "java.lang.Boolean",
        int: "java.lang.Long",
        float: "java.lang.Double",
        re.Pattern: "java.util.regex.Pattern",
    }
    return "nil" if value is None else names.get(type(value), "clojure.lang.PersistentVector")


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise BadQuery(f"{class_of(value)} cannot be cast to java.lang.CharSequence")
    return value


def _number(value: Json) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadQuery(f"{class_of(value)} cannot be cast to java.lang.Number")
    return value


def _pattern(value: Json) -> "re.Pattern[str]":
    if not isinstance(value, re.Pattern):
        raise BadQuery(f"{class_of(value)} cannot be cast to java.util.regex.Pattern")
    return value


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """A comparison of numbers or of texts, but not of one with the other."""

    def compared(first: Json, *rest: Json) -> bool:
        values = [first, *rest]
        if not all(isinstance(each, str) for each in values):
            values = [_number(each) for each in values]
        return all(compare(one, other) for one, other in pairwise(values))

    return compared


def _equal(first: Json, *rest: Json) -> bool:
    return all(first == each for each in rest)


def _found(pattern: Json, text: Json, *, whole: bool) -> Json:
    compiled = _pattern(pattern)
    match = compiled.fullmatch(_text(text)) if whole else compiled.search(_text(text))
    if match is None:
        return None
    return [match[0], *match.groups()] if match.groups() else match[0]


def _joined(*parts: Json) -> str:
    return "".join("" if part is None else str(part) for part in parts)


def _count(value: Json) -> int:
    if value is None or isinstance(value, str | list):
        return len(value or "")
    raise BadQuery(f"count not supported on this type: {class_of(value)}")


def _part(text: Json, start: Json, *end: Json) -> str:
    places = [int(_number(each)) for each in (start, *end)]
    if not 0 <= places[0] <= places[-1] <= len(_text(text)):
        raise BadQuery(f"String index out of range: {places[-1]}")
    return _text(text)[slice(places[0], places[1] if end else None)]


def _summed(*values: Json) -> int | float:
    return sum(_number(each) for each in values)


def _less(first: Json, *rest: Json) -> int | float:
    return _number(first) - _summed(*rest) if rest else -_number(first)


_SHORT: Mapping[str, Callable[..., Json]] = {
    "includes?": lambda text, part: _text(part) in _text(text),
    "starts-with?": lambda text, part: _text(text).startswith(_text(part)),
    "ends-with?": lambda text, part: _text(text).endswith(_text(part)),
    "blank?": lambda text: text is None or not _text(text).strip(),
    "lower-case": lambda text: _text(text).lower(),
    "upper-case": lambda text: _text(text).upper(),
    "trim": lambda text: _text(text).strip(),
}
#: Every function by the names that a query may use.
FUNCTIONS: Mapping[str, Callable[..., Json]] = {
    **{f"clojure.string/{name}": function for name, function in _SHORT.items()},
    **{f"str/{name}": function for name, function in _SHORT.items()},
    "<": _ordered(operator.lt),
    ">": _ordered(operator.gt),
    "<=": _ordered(operator.le),
    ">=": _ordered(operator.ge),
    "=": _equal,
    "==": _equal,
    "not=": lambda first, *rest: not _equal(first, *rest),
    "!=": lambda first, *rest: not _equal(first, *rest),
    "re-pattern": lambda text: re.compile(_text(text)),
    "re-find": lambda pattern, text: _found(pattern, text, whole=False),
    "re-matches": lambda pattern, text: _found(pattern, text, whole=True),
    "identity": lambda value: value,
    "ground": lambda value: value,
    "str": _joined,
    "subs": _part,
    "count": _count,
    "+": _summed,
    "-": _less,
    "even?": lambda value: _number(value) % 2 == 0,
    "odd?": lambda value: _number(value) % 2 == 1,
    "nil?": lambda value: value is None,
    "some?": lambda value: value is not None,
}
