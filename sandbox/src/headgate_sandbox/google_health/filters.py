"""The filter of a list: the days on which a point begins, as clients are known to send it."""

import re
from datetime import UTC, datetime

import msgspec

from headgate_sandbox.google_health.data_types import DataType

#: The end of the year 9999, beyond any date that a sandbox has.
LATEST_S = 253_402_300_799

_BOUND = re.compile(r'\s*([\w.]+)\s*(>=|<)\s*"(\d{4}-\d\d-\d\d)"\s*')


class BadFilter(Exception):
    """The filter is not valid; the message says why."""


class Bounds(msgspec.Struct, frozen=True):
    """The moments on the wall clock between which a point begins, as if that clock were in UTC."""

    low_s: int = 0
    #: The first moment that is outside.
    high_s: int = LATEST_S


def parse(text: str, data_type: DataType) -> Bounds:
    """Parse a filter for that data type; raises BadFilter."""
    bounds: dict[str, int] = {}
    for part in text.split(" AND ") if text.strip() else ():
        found = _BOUND.fullmatch(part)
        if found is None or found[1] != data_type.filtered_by:
            field = data_type.filtered_by
            raise BadFilter(f'the sandbox takes {field} >= "YYYY-MM-DD" AND {field} < "YYYY-MM-DD"')
        bounds["low_s" if found[2] == ">=" else "high_s"] = _midnight_s(found[3])
    return Bounds(**bounds)


def _midnight_s(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise BadFilter(f"{text!r} is no date") from None
