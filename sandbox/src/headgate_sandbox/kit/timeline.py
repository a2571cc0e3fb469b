"""This module keeps one user's records in time order without building most of them.

A drawn record and its moment are both functions of its index, and the moment rises with the index.
A page out of a hundred thousand records therefore costs a binary search and the records on that
page. Records can be added and removed at run time.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Slice(msgspec.Struct, frozen=True):
    """The drawn and added records of a timeline between two moments."""

    first: int
    last: int
    first_added: int
    last_added: int

    @property
    def size(self) -> int:
        """How many records the slice has."""
        return self.last - self.first + self.last_added - self.first_added


class _Added(msgspec.Struct, Generic[T], frozen=True):
    moment_s: int
    thing: T


class Timeline(Generic[T]):
    """The records of one user."""

    def __init__(
        self, drawn: int, *, moment_of: Callable[[int], int], build: Callable[[int], T]
    ) -> None:
        """Hold `drawn` records; `moment_of(index)` must rise with the index."""
        self.drawn = drawn
        #: The indexes of the drawn records that were removed, sorted.
        self._removed: list[int] = []
        self._moment_of = moment_of
        self._build = build
        #: Sorted by moment; records of equal moments stay in the order they were added.
        self._added: list[_Added[T]] = []

    @property
    def size(self) -> int:
        """How many records there are, drawn and added."""
        return self._left + len(self._added)

    @property
    def _left(self) -> int:
        """How many drawn records are left; slices count only those."""
        return self.drawn - len(self._removed)

    def add(self, moment_s: int, thing: T) -> None:
        """Add a record that was made at run time."""
        place = bisect_right(self._added, moment_s, key=_moment_of_added)
        self._added.insert(place, _Added(moment_s, thing))

    def remove(self, index: int) -> None:
        """Remove the drawn record of that index, which was not removed before."""
        insort(self._removed, index)

    def remove_added(self, thing: T) -> None:
        """Remove a record that was added."""
        self._added = [each for each in self._added if each.thing is not thing]

    def between(self, after_s: int | None, before_s: int | None) -> Slice:
        """The records after `after_s` and before `before_s`."""
        first = 0 if after_s is None else self._drawn_until(after_s)
        last = self._left if before_s is None else self._drawn_before(before_s)
        added, of = self._added, _moment_of_added
        first_added = 0 if after_s is None else bisect_right(added, after_s, key=of)
        last_added = len(added) if before_s is None else bisect_left(added, before_s, key=of)
        return Slice(first, max(first, last), first_added, max(first_added, last_added))

    def at(self, part: Slice, place: int) -> T:
        """The record at that place of a slice, oldest first."""
        # An added record's place is the number of drawn and added records before it.
        added = range(part.first_added, part.last_added)
        nearest = bisect_left(added, place, key=lambda each: self._place(part, each))
        if nearest < len(added) and self._place(part, added[nearest]) == place:
            return self._added[added[nearest]].thing
        return self._build(self._index(part.first + place - nearest))

    def _place(self, part: Slice, added: int) -> int:
        older = self._drawn_until(self._added[added].moment_s)
        return older - part.first + added - part.first_added

    def _drawn_until(self, moment_s: int) -> int:
        """How many of the drawn records that are left are at that moment or before."""
        return bisect_right(range(self._left), moment_s, key=self._moment_of_left)

    def _drawn_before(self, moment_s: int) -> int:
        """How many of the drawn records that are left are before that moment."""
        return bisect_left(range(self._left), moment_s, key=self._moment_of_left)

    def _moment_of_left(self, place: int) -> int:
        return self._moment_of(self._index(place))

    def _index(self, place: int) -> int:
        """The index of the drawn record at that place among those that are left."""
        removed = self._removed
        # The removed index at `each` has `removed[each] - each` records before it that are left.
        skipped = range(len(removed))
        return place + bisect_right(skipped, place, key=lambda each: removed[each] - each)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Moments for drawn records: about a step apart, the last one just before `newest_s`.

    The step is a day, or less if the records would otherwise go back more than ten years.
    """

    drawn: int
    newest_s: int
    step_s_max: int = 86_400
    span_s_max: int = 10 * 365 * 86_400

    def moment_s(self, index: int, jitter: float) -> int:
        """The moment of that index; `jitter` is from 0 up to 1."""
        step_s = min(self.step_s_max, self.span_s_max // max(1, self.drawn))
        # The jitter is less than a step, so moments rise with the index.
        return self.newest_s - int((self.drawn - index - 0.9 * jitter) * step_s)


def _moment_of_added(added: _Added[T]) -> int:
    return added.moment_s
