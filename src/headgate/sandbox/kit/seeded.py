"""Values that depend on nothing but the seed and a name: equal names, equal values, any order.

This is what lets a sandbox hold a hundred thousand records without building them.
"""

from hashlib import blake2b
from random import Random

_TOKEN_BYTES = 20


def draw(seed: int, *names: object) -> Random:
    """A generator of this name's own: a draw from it reshuffles no other."""
    return Random(_text(seed, names))


def fraction(seed: int, *names: object) -> float:
    """One number from 0 up to 1; many times cheaper than a generator."""
    digest = blake2b(_text(seed, names).encode(), digest_size=6).digest()
    return int.from_bytes(digest) / (1 << 48)


def token(seed: int, *names: object) -> str:
    """Forty hexadecimal digits, for whatever has to look like a secret."""
    return blake2b(_text(seed, names).encode(), digest_size=_TOKEN_BYTES).hexdigest()


def _text(seed: int, names: tuple[object, ...]) -> str:
    return "/".join(map(str, (seed, *names)))
