"""Which pages a run reads, decided from the list of pages and from what is indexed already.

Pages are read in the order of their edit times. So everything up to some time has been read at any
moment, and the mark up to which the next run need not look can be told.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Self

import msgspec

from headgate import Json, JsonObject, Mode, Record
from headgate.connectors.roam import ListedPage

#: How many pages one record of a plan names.
PART_PAGES = 1_000
_PAGE, _PART = "page/", "plan/"


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a page that is indexed; stored as a record, with the checkpoint."""

    #: Its latest edit by the list from which it was indexed, in milliseconds since the epoch.
    edited_ms: int
    #: The hash of its text.
    hash: str

    def to_record(self, uid: str) -> Record:
        """Return the record of a page's state."""
        return Record(page_key(uid), msgspec.to_builtins(self))


class PlannedPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A page that a run has to look at."""

    uid: str
    #: Its latest edit by the list; 0: it is gone from the graph, and has to leave the index.
    edited_ms: int

    @property
    def is_gone(self) -> bool:
        """Whether the list of pages no longer has it."""
        return self.edited_ms == 0


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The pages that a run looks at, and how many it does not."""

    pages: Sequence[PlannedPage]
    total_pages: int
    #: Not edited since the time that was given, or since they were indexed.
    skipped_since: int
    #: How many of the pages are gone.
    gone: int
    #: Everything edited up to this time is read when all of `pages` are; None: there is nothing.
    mark_ms: int | None

    @property
    def parts(self) -> list[Record]:
        """The records that keep the plan until the run has ended."""
        begins = range(0, len(self.pages), PART_PAGES)
        return [
            _PlanPart(pages=self.pages[begin : begin + PART_PAGES], parts=len(begins)).to_record(at)
            for at, begin in enumerate(begins)
        ]


class _PlanPart(msgspec.Struct, frozen=True, kw_only=True):
    pages: Sequence[PlannedPage]
    #: How many parts the plan has.
    parts: int

    def to_record(self, number: int) -> Record:
        return Record(part_key(number), msgspec.to_builtins(self))


class RunCursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: the checkpoint that is stored with every batch."""

    #: The number of the next batch, from 1.
    batch: int = 1
    done: int = 0
    total: int
    #: See RunPlan; lowered below the edit of every page that failed.
    mark_ms: int | None

    @classmethod
    def read(cls, cursor: Json) -> Self:
        """Read what `to_json` made."""
        return msgspec.convert(cursor, cls)

    def to_json(self) -> JsonObject:
        """Return the cursor of a chunk."""
        encoded: JsonObject = msgspec.to_builtins(self)
        return encoded

    @property
    def parts(self) -> int:
        """How many records keep the plan."""
        return -(-self.total // PART_PAGES)


def page_key(uid: str) -> str:
    """Return the key of the record with a page's state."""
    return f"{_PAGE}{uid}"


def part_key(number: int) -> str:
    """Return the key of a record with a part of a plan."""
    return f"{_PART}{number}"


def next_parts(cursor: RunCursor, batch: int) -> list[str]:
    """Return the keys of the parts that the next batch of so many pages is in."""
    last = min(cursor.done + batch, cursor.total) - 1
    return [part_key(at) for at in range(cursor.done // PART_PAGES, last // PART_PAGES + 1)]


def next_pages(
    cursor: RunCursor, batch: int, parts: Mapping[str, JsonObject]
) -> list[PlannedPage] | None:
    """Return the next pages, from the records of `next_parts`; None if one of those is lost."""
    keys = next_parts(cursor, batch)
    if any(key not in parts for key in keys):
        return None
    pages = [page for key in keys for page in msgspec.convert(parts[key], _PlanPart).pages]
    begin = cursor.done % PART_PAGES
    return list(pages[begin : begin + batch])


def stale_parts(first: JsonObject | None, plan: RunPlan) -> list[str]:
    """Return the keys of an earlier plan's parts that the new plan does not overwrite.

    `first` is the record of that plan's first part, if there is one.
    """
    if first is None:
        return []
    return [part_key(at) for at in range(len(plan.parts), msgspec.convert(first, _PlanPart).parts)]


def make_plan(
    listed: Sequence[ListedPage],
    states: Mapping[str, JsonObject],
    indexed: Collection[str],
    *,
    mode: Mode,
    since_ms: int | None = None,
    limit: int | None = None,
) -> RunPlan:
    """Decide which pages to read.

    `states` are the records of pages that were indexed before, by their keys, and `indexed` the
    pages that the index has. Mode full reads every page. Otherwise a page is skipped if it is
    indexed as it is, or if it was not edited since `since_ms`, when that is given.
    """
    listed = sorted(listed, key=lambda page: (page.edited_ms, page.uid))
    changed = [
        page for page in listed if mode is Mode.FULL or not _is_current(page, states, indexed)
    ]
    eligible = [page for page in changed if since_ms is None or page.edited_ms >= since_ms]
    chosen = eligible[:limit]
    chosen_uids = {page.uid for page in chosen}
    left_out = [page for page in changed if page.uid not in chosen_uids]
    listed_uids = {page.uid for page in listed}
    gone = sorted(uid for uid in indexed if uid not in listed_uids)
    # Both are sorted: the latest edit of all, or just before the first that is left out.
    reaches = [page.edited_ms for page in listed[-1:]]
    reaches += [page.edited_ms - 1 for page in left_out[:1]]
    return RunPlan(
        pages=[
            *(PlannedPage(uid, 0) for uid in gone),
            *(PlannedPage(page.uid, _planned_ms(page)) for page in chosen),
        ],
        total_pages=len(listed),
        skipped_since=len(listed) - len(eligible),
        gone=len(gone),
        mark_ms=min(reaches, default=None),
    )


def _is_current(
    page: ListedPage, states: Mapping[str, JsonObject], indexed: Collection[str]
) -> bool:
    """Whether the index has the page as it is.

    By its own state and not by a mark: an edit that was made offline arrives with an old time, and
    a page whose latest block was deleted has an older time than before.
    """
    state = states.get(page_key(page.uid))
    if page.uid not in indexed or state is None:
        return False
    return read_state(state).edited_ms == _planned_ms(page)


def _planned_ms(page: ListedPage) -> int:
    # A page without any time would be taken for one that is gone.
    return max(1, page.edited_ms)


def read_state(data: JsonObject) -> PageState:
    """Read a page's state from its record."""
    return msgspec.convert(data, PageState)
