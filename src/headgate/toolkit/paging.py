"""One page of a list, as the API sends it and `--json` prints it."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

import msgspec

V = TypeVar("V")

_by_id: Callable[[object], str] = attrgetter("id")


class Page(msgspec.Struct, Generic[V], frozen=True, kw_only=True):
    """One page of a list; the next one begins after `next_cursor`, which is None at the end."""

    data: Sequence[V]
    next_cursor: str | None


def page_of(found: Sequence[V], limit: int, *, cursor: Callable[[V], str] = _by_id) -> Page[V]:
    """The page of the first `limit` things.

    The caller reads one more than `limit`, which shows whether there is another page.
    """
    shown = found[:limit]
    return Page(data=shown, next_cursor=cursor(shown[-1]) if len(found) > limit else None)
