"""Ids and randomness: this is the only module that uses the system's entropy."""

import random
from typing import Protocol

from headgate.base.clock import Clock

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80
_LENGTH = 26


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
        now_ms = max(0, int(self._clock.now().timestamp() * 1000))
        if now_ms > self._last_ms:
            self._last_ms = now_ms
            self._tail = self._rng.getrandbits(_RANDOM_BITS)
        else:
            self._tail += 1
        value = (self._last_ms << _RANDOM_BITS) + self._tail
        letters = [_CROCKFORD[value >> 5 * place & 31] for place in reversed(range(_LENGTH))]
        return f"{prefix}_{''.join(letters)}"


def system_random() -> random.Random:
    """Randomness from the operating system, for use outside tests."""
    return random.SystemRandom()
