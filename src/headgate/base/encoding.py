"""JSON in and out, in one canonical form: compact, sorted keys; equal values, equal bytes."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import TypeAlias

import msgspec

#: What may be stored: JSON and nothing else. (Values are not typed deeper: recursion buys little.)
Json: TypeAlias = object
JsonObject: TypeAlias = Mapping[str, object]

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()


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
