"""This module draws values from the seed and a name alone: an equal name gives an equal value.

The order of drawing does not matter, so a sandbox can offer a hundred thousand records without
building them.
"""

from hashlib import blake2b
from random import Random

_TOKEN_BYTES = 20


def draw(seed: int, *names: object) -> Random:
    """A random generator for this name alone; drawing from it changes no other generator."""
    return Random(_text(seed, names))


def fraction(seed: int, *names: object) -> float:
    """One number from 0 up to 1; much cheaper than a generator."""
    digest = blake2b(_text(seed, names).encode(), digest_size=6).digest()
    return int.from_bytes(digest) / (1 << 48)


def token(seed: int, *names: object) -> str:
    """Forty hexadecimal digits, for values that must look like a secret."""
    return blake2b(_text(seed, names).encode(), digest_size=_TOKEN_BYTES).hexdigest()


def _text(seed: int, names: tuple[object, ...]) -> str:
    return "/".join(map(str, (seed, *names)))
