"""Paging of check-ins by their times: where the next page begins, so that none is ever lost.

Pages go from the oldest check-in to the newest. A page by its offset would drift when a check-in
arrives meanwhile. A page by its time may be cut between check-ins of one second, so the next page
begins some seconds earlier, and what was read already is known by its id. Foursquare does not say
whether the time that a page begins after is itself part of it, so both are assumed.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from headgate.base.errors import Terminal
from headgate.connectors.foursquare.checkin import FoursquareCheckin

#: The largest page that Foursquare gives.
PAGE_MAX = 250
#: How many seconds the next page repeats.
OVERLAP_S = 10


class CheckinCursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the next page begins, and how far the pages before it came."""

    #: The page has the check-ins after this second; None: from the oldest.
    after_s: int | None = None
    #: The newest second that was read; a page without a newer one is the last.
    newest_s: int | None = None
    #: The ids of check-ins that were read and come again.
    read: tuple[str, ...] = ()


def unread(cursor: CheckinCursor, page: Sequence[FoursquareCheckin]) -> list[FoursquareCheckin]:
    """Return the check-ins of a page that were not on the page before, each once."""
    known = set(cursor.read)
    return [each for each in {each.id: each for each in page}.values() if each.id not in known]


def crowded_s(cursor: CheckinCursor, page: Sequence[FoursquareCheckin]) -> int | None:
    """Return the second that alone fills a page, so that its time leads no further; None: none.

    The page begins in this second or just before it, and does not reach beyond.
    """
    if len(page) < PAGE_MAX or cursor.after_s is None:
        return None
    last_s = page[-1].created_s
    return last_s if last_s - 1 <= cursor.after_s else None


def after_page(
    cursor: CheckinCursor, page: Sequence[FoursquareCheckin]
) -> tuple[CheckinCursor, bool]:
    """Return where the next page begins, and whether this was the last."""
    if not page:
        return cursor, True
    last_s = page[-1].created_s
    newest_s = last_s if cursor.newest_s is None else max(last_s, cursor.newest_s)
    is_full = len(page) >= PAGE_MAX
    if not is_full and cursor.newest_s is not None and last_s <= cursor.newest_s:
        return cursor, True
    after_s = max(last_s - OVERLAP_S, cursor.after_s or 0)
    if is_full and after_s == cursor.after_s:
        # A page within the overlap: repeat only the second at its end.
        after_s = last_s - 1
    return _cursor(after_s, newest_s, page), False


def after_crowd(
    cursor: CheckinCursor,
    second: int,
    oldest: Sequence[FoursquareCheckin],
    newest: Sequence[FoursquareCheckin],
) -> CheckinCursor:
    """Return where the page after a crowded second begins.

    `oldest` and `newest` are the pages from both ends of that second and the one after it. If they
    meet, they have everything; else raises Terminal, because what lies between cannot be asked for.
    """
    ids = {each.id for each in oldest}
    if len(newest) >= PAGE_MAX and not any(each.id in ids for each in newest):
        at = datetime.fromtimestamp(second, UTC).isoformat()
        raise Terminal(
            f"Foursquare has {2 * PAGE_MAX} check-ins or more around one second, {at}, and its API "
            "gives no way to read them all; nothing after that time is imported"
        )
    newest_s = max(second, cursor.newest_s or second, *(each.created_s for each in newest))
    return _cursor(second + 1, newest_s, [*oldest, *newest])


def _cursor(after_s: int, newest_s: int, page: Sequence[FoursquareCheckin]) -> CheckinCursor:
    read = sorted({each.id for each in page if each.created_s >= after_s})
    return CheckinCursor(after_s=after_s, newest_s=newest_s, read=tuple(read))
