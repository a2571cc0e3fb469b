"""Secret texts, such as tokens, passwords and keys, which must not be printed or logged.

Only `reveal` returns the text, so a search for that word finds every place where a secret is used.
Printing, logging, pickling or encoding a secret gives a mask or an error.
"""

import hmac
from random import Random
from typing import NoReturn, Self

from headgate.base.redact import MASK

#: 256 bits, which nobody can guess.
_RANDOM_BYTES = 32


class Secret:
    """One secret text."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Wrap `value`."""
        if not isinstance(value, str):
            # Name the type of the value, never the value.
            raise TypeError(f"a secret is a text, not a {type(value).__name__}")
        self._value = value

    def reveal(self) -> str:
        """The text itself; use it at once and store it nowhere."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        # Compared as bytes, because compare_digest takes only ASCII strings.
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    # Not hashable: a set of secrets would be a way to guess them.
    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not pickled")


def random_secret(rng: Random) -> Secret:
    """A random secret; nobody can guess it if `rng` is the operating system's."""
    return Secret(rng.randbytes(_RANDOM_BYTES).hex())
