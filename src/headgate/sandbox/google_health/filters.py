"""This module parses and applies the filters of Google Health: the time comparisons of AIP-160.

OR binds more tightly than AND, as AIP-160 says, unlike in programming languages.
"""

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from headgate.sandbox.google_health.data_types import DataType
from headgate.sandbox.google_health.point import Point

#: The end of the year 9999, beyond any date that a sandbox has.
LATEST_S = 253_402_300_799
FILTER_CHARS_MAX = 2_000
DEPTH_MAX = 20

_TOKEN = re.compile(r'\s*(?:(AND|OR)\b|(>=|<=|!=|[<>=()])|"([^"]*)"|([A-Za-z_][\w.]*))')
_CIVIL = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d)?")
_PHYSICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_OPERATORS = (">=", "<")


class BadFilter(Exception):
    """The filter is not valid; the message says why."""


class Comparison(msgspec.Struct, frozen=True):
    """Compares the start or end of a point with a moment."""

    #: `start`, `end`, `civil_start` or `civil_end`.
    meaning: str
    #: `>=` or `<`.
    operator: str
    seconds: float

    def holds(self, point: Point, offset_s: int) -> bool:
        """Whether the point matches; civil times are `offset_s` ahead of physical times."""
        at_s = point.end_s if self.meaning.endswith("end") else point.start_s
        limit_s = self._physical(offset_s)
        return at_s >= limit_s if self.operator == ">=" else at_s < limit_s

    def span(self, offset_s: int) -> tuple[float, float]:
        """The physical moments between which the comparison can hold."""
        limit_s = self._physical(offset_s)
        return (limit_s, LATEST_S) if self.operator == ">=" else (0, limit_s)

    def _physical(self, offset_s: int) -> float:
        return self.seconds - offset_s if self.meaning.startswith("civil") else self.seconds


class All(msgspec.Struct, frozen=True):
    """Every part must hold; without parts, every point matches."""

    parts: Sequence["Filter"] = ()

    def holds(self, point: Point, offset_s: int) -> bool:
        """Whether the point matches every part."""
        return all(part.holds(point, offset_s) for part in self.parts)

    def span(self, offset_s: int) -> tuple[float, float]:
        """The span that all parts have in common."""
        spans = [part.span(offset_s) for part in self.parts]
        return max((low for low, _ in spans), default=0), min(
            (high for _, high in spans), default=LATEST_S
        )


class Either(msgspec.Struct, frozen=True):
    """At least one part must hold."""

    parts: Sequence["Filter"]

    def holds(self, point: Point, offset_s: int) -> bool:
        """Whether the point matches any part."""
        return any(part.holds(point, offset_s) for part in self.parts)

    def span(self, offset_s: int) -> tuple[float, float]:
        """The span from the first moment of any part to the last."""
        spans = [part.span(offset_s) for part in self.parts]
        return min(low for low, _ in spans), max(high for _, high in spans)


Filter = Comparison | All | Either


def parse(text: str, data_type: DataType) -> Filter:
    """Parse a filter for that data type; raises BadFilter."""
    if len(text) > FILTER_CHARS_MAX:
        raise BadFilter("it is too long")
    if text.count("(") > DEPTH_MAX:
        raise BadFilter("it is too deep")
    if not text.strip():
        return All()
    return _Parser(text, data_type).parse()


class _Parser:
    """Reads one filter from left to right."""

    def __init__(self, text: str, data_type: DataType) -> None:
        self._type = data_type
        self._tokens = _tokens(text)

    def parse(self) -> Filter:
        found = self._all()
        if self._tokens:
            raise BadFilter(f"unexpected {self._tokens[0][1]!r}")
        return found

    def _all(self) -> Filter:
        parts = [self._either()]
        while self._takes("word", "AND"):
            parts.append(self._either())
        return parts[0] if len(parts) == 1 else All(parts)

    def _either(self) -> Filter:
        parts = [self._one()]
        while self._takes("word", "OR"):
            if self._type.name != "sleep":
                raise BadFilter(f"OR is not supported for {self._type.name}")
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Either(parts)

    def _one(self) -> Filter:
        if self._takes("sign", "("):
            found = self._all()
            if not self._takes("sign", ")"):
                raise BadFilter("a parenthesis is not closed")
            return found
        field = self._take("field")
        if field not in self._type.times:
            known = ", ".join(self._type.times)
            raise BadFilter(f"{field!r} cannot be filtered by; only {known}")
        operator = self._take("sign")
        if operator not in _OPERATORS:
            raise BadFilter(f"the operator {operator!r} is not supported; only >= and <")
        meaning = self._type.times[field]
        return Comparison(meaning, operator, _moment_s(self._take("text"), meaning))

    def _take(self, kind: str) -> str:
        if not self._tokens or self._tokens[0][0] != kind:
            found = repr(self._tokens[0][1]) if self._tokens else "the end"
            raise BadFilter(f"unexpected {found}")
        return self._tokens.pop(0)[1]

    def _takes(self, kind: str, value: str) -> bool:
        if self._tokens and self._tokens[0] == (kind, value):
            self._tokens.pop(0)
            return True
        return False


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise BadFilter(f"unexpected {text[place:].strip()[:20]!r}")
        word, sign, quoted, field = match.groups()
        if quoted is not None:
            found.append(("text", quoted))
        else:
            found.append(
                ("word", word) if word else ("sign", sign) if sign else ("field", str(field))
            )
        place = match.end()
    return found


def _moment_s(text: str, meaning: str) -> float:
    """Seconds since the epoch; a civil time is taken as if the wall clock were in UTC."""
    if meaning.startswith("civil"):
        if not _CIVIL.fullmatch(text):
            raise BadFilter(f"{text!r} is no civil time: YYYY-MM-DD[THH:mm:ss]")
        return _seconds(f"{text}Z" if "T" in text else f"{text}T00:00:00Z")
    if not _PHYSICAL.fullmatch(text):
        raise BadFilter(f"{text!r} is no RFC-3339 timestamp")
    return _seconds(text)


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise BadFilter(f"{text!r} is no time") from None
