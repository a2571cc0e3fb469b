"""JSON in one canonical form, compact with sorted keys, so that equal values are equal bytes."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import TypeAlias

import msgspec

#: A JSON value. It is not typed more deeply, because a recursive type helps little.
Json: TypeAlias = object
JsonObject: TypeAlias = Mapping[str, object]

_encoder = msgspec.json.Encoder(order="deterministic")
#: Does not sort keys, which takes longer and changes no size.
_sizer = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

#: An escaped NUL character in JSON text, which Postgres cannot store. An escaped backslash before
#: `u0000` is only text about it.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def to_json(value: Json) -> str:
    """The canonical JSON text of `value`; TypeError where JSON has no such value.

    NaN and infinity become null, as in JavaScript.
    """
    return _encoder.encode(value).decode()


def from_json(text: str | bytes) -> Json:
    """The value of a JSON text."""
    return _decoder.decode(text)


def content_hash(value: Json) -> str:
    """A 128-bit hash of the canonical JSON, the same for equal content."""
    return _hash(_encoder.encode(value))


def hash_text(text: str) -> str:
    """A 128-bit hash of a text."""
    return _hash(text.encode())


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def json_size(value: Json) -> int:
    """The bytes of `value` as JSON; 0 where JSON has no such value."""
    try:
        return len(_sizer.encode(value))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return 0


def json_problem(value: Json, *, bytes_max: int) -> str | None:
    """Why `value` cannot be stored as JSON of at most `bytes_max` bytes; None if it can."""
    try:
        storable_json(value, bytes_max=bytes_max)
    except ValueError as error:
        return str(error)
    return None


def storable_json(value: Json, *, bytes_max: int) -> str:
    """The canonical JSON text of `value`; ValueError says why it cannot be stored."""
    try:
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None
    if len(encoded) > bytes_max:
        raise ValueError(f"is {len(encoded):,} bytes of JSON; at most {bytes_max:,} are allowed")
    text = encoded.decode()
    if "u0000" in text and _NUL.search(text):
        raise ValueError("must not contain the character NUL")
    return text
