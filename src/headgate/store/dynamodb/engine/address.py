"""The address of a table: `dynamodb://TABLE?region=eu-central-1&endpoint=http://127.0.0.1:4566`."""

import re
from urllib.parse import parse_qsl, urlsplit

import msgspec

from headgate.base.errors import InvalidInput

SCHEME = "dynamodb"
_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")


class DynamoAddress(msgspec.Struct, frozen=True):
    """Where a table is; what is None comes from the environment, as for every AWS client."""

    table: str
    region: str | None = None
    endpoint: str | None = None


def parse_address(url: str) -> DynamoAddress:
    """The address that `url` names; InvalidInput says what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme != SCHEME:
        raise InvalidInput("database", f"must begin with {SCHEME}://")
    # Not `hostname`, which is lower-cased: tables are told apart by case.
    table = parts.netloc
    if not _NAME.fullmatch(table) or parts.path not in {"", "/"}:
        raise InvalidInput(
            "database",
            f"must be {SCHEME}://TABLE, with 3 to 255 letters, digits, '_', '-' or '.' as TABLE",
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = options.keys() - {"region", "endpoint"}
    if unknown:
        raise InvalidInput("database", f"unknown option {sorted(unknown)[0]!r}: region or endpoint")
    return DynamoAddress(table, options.get("region"), options.get("endpoint"))
