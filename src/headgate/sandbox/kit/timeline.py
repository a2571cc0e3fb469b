"""Things in the order of time: most of them never built, some added later.

A drawn thing is a function of its index, and so is its moment, which rises with it. A page of a
hundred thousand therefore costs a binary search and the things on the page.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Slice(msgspec.Struct, frozen=True):
    """A stretch of a timeline: drawn and added things between two moments."""

    first: int
    last: int
    first_added: int
    last_added: int

    @property
    def size(self) -> int:
        """How many things are in it."""
        return self.last - self.first + self.last_added - self.first_added


class _Added(msgspec.Struct, Generic[T], frozen=True):
    moment_s: int
    thing: T
    #: How many drawn things are older.
    older: int


class Timeline(Generic[T]):
    """The things of one user."""

    def __init__(
        self, drawn: int, *, moment_of: Callable[[int], int], build: Callable[[int], T]
    ) -> None:
        """Hold `drawn` things; `moment_of` an index must rise with it."""
        self.drawn = drawn
        self._moment_of = moment_of
        self._build = build
        #: By moment; equal moments in the order they were added.
        self._added: list[_Added[T]] = []

    @property
    def size(self) -> int:
        """How many things there are."""
        return self.drawn + len(self._added)

    def add(self, moment_s: int, thing: T) -> None:
        """Put in one that was made at run time."""
        place = bisect_right(self._added, moment_s, key=_moment_of_added)
        self._added.insert(place, _Added(moment_s, thing, self._drawn_until(moment_s)))

    def between(self, after_s: int | None, before_s: int | None) -> Slice:
        """Those after the one moment and before the other."""
        first = 0 if after_s is None else self._drawn_until(after_s)
        last = self.drawn if before_s is None else self._drawn_before(before_s)
        added, of = self._added, _moment_of_added
        first_added = 0 if after_s is None else bisect_right(added, after_s, key=of)
        last_added = len(added) if before_s is None else bisect_left(added, before_s, key=of)
        return Slice(first, max(first, last), first_added, max(first_added, last_added))

    def at(self, part: Slice, place: int) -> T:
        """The thing at that place of a slice, oldest first."""
        # An added one's place is the number of drawn and of added ones before it.
        added = range(part.first_added, part.last_added)
        nearest = bisect_left(added, place, key=lambda each: self._place(part, each))
        if nearest < len(added) and self._place(part, added[nearest]) == place:
            return self._added[added[nearest]].thing
        return self._build(part.first + place - nearest)

    def _place(self, part: Slice, added: int) -> int:
        return self._added[added].older - part.first + added - part.first_added

    def _drawn_until(self, moment_s: int) -> int:
        """How many drawn ones are of that moment or before."""
        return bisect_right(range(self.drawn), moment_s, key=self._moment_of)

    def _drawn_before(self, moment_s: int) -> int:
        """How many drawn ones are before that moment."""
        return bisect_left(range(self.drawn), moment_s, key=self._moment_of)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Moments of drawn things: a step apart, shaken a little, the last one just before `newest_s`.

    The step is a day, or less where the things would go back further than ten years.
    """

    drawn: int
    newest_s: int
    step_s_max: int = 86_400
    span_s_max: int = 10 * 365 * 86_400

    def moment_s(self, index: int, jitter: float) -> int:
        """The moment of that index; `jitter` is from 0 up to 1."""
        step_s = min(self.step_s_max, self.span_s_max // max(1, self.drawn))
        # Less than a step of jitter, so moments rise with the index.
        return self.newest_s - int((self.drawn - index - 0.9 * jitter) * step_s)


def _moment_of_added(added: _Added[T]) -> int:
    return added.moment_s
