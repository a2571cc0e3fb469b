"""Ids and randomness: this is the only module that uses the system's entropy."""

import random
from datetime import datetime
from hashlib import blake2b
from typing import Protocol

from headgate.base.clock import Clock

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#: Two letters at a time take half as long.
_PAIRS = tuple(first + second for first in _CROCKFORD for second in _CROCKFORD)
_RANDOM_BITS = 80
_SHIFTS = tuple(range(120, -1, -10))


class Ids(Protocol):
    """Makes unique ids, which within a process sort by the time of their creation."""

    def new(self, prefix: str) -> str:
        """A fresh id such as `job_01J…`."""
        ...


class UlidIds:
    """ULIDs: 48 bits of milliseconds, 80 random bits, 26 letters that sort by time."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        """Take the time from `clock` and the random bits from `rng`."""
        self._clock = clock
        self._rng = rng
        self._last_ms = -1
        self._tail = 0

    def new(self, prefix: str) -> str:
        """A fresh id; two ids of the same millisecond still sort in the order of creation."""
        now_ms = _milliseconds(self._clock.now())
        if now_ms > self._last_ms:
            self._last_ms = now_ms
            self._tail = self._rng.getrandbits(_RANDOM_BITS)
        else:
            self._tail += 1
        return f"{prefix}_{_letters(self._last_ms, self._tail)}"


def derived_id(prefix: str, at: datetime, *parts: object) -> str:
    """The id of what these parts name: the same at every call, and sorted by the time `at`."""
    digest = blake2b("\n".join(map(str, parts)).encode(), digest_size=_RANDOM_BITS // 8).digest()
    return f"{prefix}_{_letters(_milliseconds(at), int.from_bytes(digest, 'big'))}"


def _milliseconds(at: datetime) -> int:
    return max(0, int(at.timestamp() * 1000))


def _letters(milliseconds: int, tail: int) -> str:
    value = (milliseconds << _RANDOM_BITS) + tail
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def system_random() -> random.Random:
    """Randomness from the operating system, for use outside tests."""
    return random.SystemRandom()
