"""This module holds one graph: its pages, and the edits made at run time.

A page is drawn each time it is asked for. Only pages that were edited, added or deleted are kept.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate.sandbox.roam import uids
from headgate.sandbox.roam.page import BLOCK, Block, Head, Node, Page, draw_page, draw_title

PAGES_MAX = 1_000_000
ADDED_MAX = 100_000
DEPTH_MAX = 20
#: One in this many pages is a daily note.
_DAILY = 3
#: The numbers of pages and blocks added at run time begin here.
_FIRST_ADDED = PAGES_MAX * BLOCK * 2


class NewBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A block to be made, with its children."""

    string: str
    children: "list[NewBlock]" = []


class NewPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page to be made at run time."""

    #: None means the first graph.
    graph: str | None = None
    title: str
    blocks: list[NewBlock] = []


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change to a page. If only `page` is given, nothing but its edit time changes."""

    graph: str | None = None
    page: str
    title: str | None = None
    #: The text of a new block at the end of the page.
    append: str | None = None
    #: The uid of the block whose text becomes `string`.
    block: str | None = None
    string: str | None = None
    #: The uid of a block to remove, with all its descendants.
    remove: str | None = None

    def __post_init__(self) -> None:
        """Refuse `block` without `string`, or the reverse."""
        if (self.block is None) != (self.string is None):
            raise InvalidInput("block", "goes with string")


class Graph:
    """One graph with its pages."""

    def __init__(self, clock: Clock, name: str, *, seed: int, pages: int) -> None:
        """Offer that many pages; they are drawn when they are asked for."""
        if not 0 <= pages <= PAGES_MAX:
            raise InvalidInput("pages", f"must be between 0 and {PAGES_MAX}")
        self.name = name
        self._clock = clock
        self._seed = seed
        self._drawn = pages
        # Drawn blocks are edited up to a day after their page was made; two days back, all drawn
        # edits are in the past.
        self._newest = clock.now().date() - timedelta(days=2)
        #: Edited and added pages by uid; None for a deleted page.
        self._changed: dict[str, Page | None] = {}
        self._made = 0

    @property
    def size(self) -> int:
        """How many pages there are."""
        return sum(1 for _ in self.heads())

    def heads(self) -> Iterator[Head]:
        """Every page, without its blocks."""
        for index in range(self._drawn):
            head = self._head(index)
            if head.uid not in self._changed:
                yield head
        for page in self._changed.values():
            if page is not None:
                yield Head(
                    number=0,
                    uid=page.uid,
                    title=page.title,
                    create_ms=page.create_ms,
                    log_id=page.log_id,
                )

    def page(self, uid: str) -> Page | None:
        """The page of that uid."""
        if uid in self._changed:
            return self._changed[uid]
        index = self._index(uid)
        return None if index is None else draw_page(self._seed, self.name, self._head(index))

    def node(self, uid: str) -> Node | None:
        """The page or block of that uid."""
        found = self.page(uid)
        if found is not None or uid in self._changed:
            return found
        for page in self._pages_around(uid):
            for node in page.everything():
                if node.uid == uid:
                    return node
        return None

    # Edits.

    def add(self, new: NewPage) -> Page:
        """Add a page, made now."""
        if not new.title:
            raise InvalidInput("title", "must not be empty")
        if self._made >= ADDED_MAX:
            raise InvalidInput("blocks", f"{ADDED_MAX} pages and blocks were added already")
        now_ms = self._now_ms()
        page = Page(
            uid=self._next_uid(),
            title=new.title,
            create_ms=now_ms,
            edit_ms=now_ms,
            children=[self._make(block, now_ms, depth=1) for block in new.blocks],
        )
        self._changed[page.uid] = page
        return page

    def edit(self, edit: Edit) -> Page:
        """Change a page; as in Roam, only the changed page or block gets a new edit time."""
        page = self.page(edit.page)
        if page is None:
            raise InvalidInput("page", f"there is no page {edit.page}")
        parents = {child.uid: node for node in page.everything() for child in node.children}
        for field, uid in (("block", edit.block), ("remove", edit.remove)):
            if uid is not None and uid not in parents:
                raise InvalidInput(field, f"there is no block {uid} on that page")
        self._changed[page.uid] = page
        now_ms = self._now_ms()
        if edit.block is not None and edit.string is not None:
            block = next(each for each in page.everything() if each.uid == edit.block)
            assert isinstance(block, Block), "a page is nobody's child"
            block.string, block.edit_ms = edit.string, now_ms
        if edit.remove is not None:
            parent = parents[edit.remove]
            parent.children = [each for each in parent.children if each.uid != edit.remove]
            parent.edit_ms = now_ms
        if edit.append is not None:
            page.children = [*page.children, self._make(NewBlock(edit.append), now_ms, depth=1)]
        if edit.title is not None:
            page.title, page.edit_ms = edit.title, now_ms
        if (edit.block, edit.remove, edit.append) == (None, None, None):
            page.edit_ms = now_ms
        return page

    def delete(self, uid: str) -> None:
        """Delete a page with all its blocks."""
        if self.page(uid) is None:
            raise InvalidInput("page", f"there is no page {uid}")
        self._changed[uid] = None

    # Helpers.

    def _head(self, index: int) -> Head:
        number = index * BLOCK
        if index % _DAILY:
            day = self._newest - timedelta(days=index % 1_000)
            title, uid = draw_title(self._seed, self.name, number), uids.uid_of(number)
            return Head(
                number=number, uid=uid, title=title, create_ms=_midnight_ms(day), log_id=None
            )
        day = self._newest - timedelta(days=index // _DAILY)
        midnight_ms = _midnight_ms(day)
        return Head(
            number=number,
            uid=uids.daily_uid(day),
            title=uids.daily_title(day),
            create_ms=midnight_ms,
            log_id=midnight_ms,
        )

    def _index(self, uid: str) -> int | None:
        """The index of the drawn page with that uid; None if there is none."""
        day = uids.day_of(uid)
        if day is not None:
            index = (self._newest - day).days * _DAILY
            return index if 0 <= index < self._drawn else None
        number = uids.number_of(uid)
        if number is None or number % BLOCK:
            return None
        index = number // BLOCK
        return index if index < self._drawn and index % _DAILY else None

    def _pages_around(self, uid: str) -> Iterator[Page]:
        """The pages that can contain a block of that uid."""
        number = uids.number_of(uid)
        if number is not None and number // BLOCK < self._drawn:
            page = self.page(self._head(number // BLOCK).uid)
            if page is not None:
                yield page
        else:
            yield from (page for page in self._changed.values() if page is not None)

    def _make(self, new: NewBlock, now_ms: int, *, depth: int) -> Block:
        if depth > DEPTH_MAX:
            raise InvalidInput("blocks", f"must not be deeper than {DEPTH_MAX}")
        return Block(
            uid=self._next_uid(),
            string=new.string,
            create_ms=now_ms,
            edit_ms=now_ms,
            children=[self._make(child, now_ms, depth=depth + 1) for child in new.children],
        )

    def _next_uid(self) -> str:
        self._made += 1
        return uids.uid_of(_FIRST_ADDED + self._made)

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1_000)


def _midnight_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000
