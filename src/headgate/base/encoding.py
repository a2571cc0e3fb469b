"""JSON in and out, in one canonical form: compact, sorted keys; equal values, equal bytes."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import TypeAlias

import msgspec

#: What may be stored: JSON and nothing else. (Values are not typed deeper: recursion buys little.)
Json: TypeAlias = object
JsonObject: TypeAlias = Mapping[str, object]

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()

#: The character NUL in JSON text, and not a text that only speaks of it: Postgres cannot store it.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def to_json(value: Json) -> str:
    """The canonical JSON text of `value`; raises TypeError for what JSON cannot hold.

    A float that is not a number becomes null, as in JavaScript.
    """
    return _encoder.encode(value).decode()


def from_json(text: str | bytes) -> Json:
    """The value that a JSON text holds."""
    return _decoder.decode(text)


def content_hash(value: Json) -> str:
    """A 128-bit hash of the canonical JSON: equal content, equal hash."""
    return blake2b(_encoder.encode(value), digest_size=16).hexdigest()


def json_problem(value: Json, *, bytes_max: int) -> str | None:
    """Why `value` cannot be stored as JSON of at most `bytes_max` bytes; None if it can."""
    try:
        text = to_json(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        return f"cannot be written as JSON: {error}"
    size = len(text.encode())
    if size > bytes_max:
        return f"is {size:,} bytes of JSON; at most {bytes_max:,} are taken"
    return "must not hold the character NUL" if _NUL.search(text) else None
