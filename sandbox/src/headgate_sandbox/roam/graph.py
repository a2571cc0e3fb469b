"""This module holds one graph: its pages, and the edits made at run time.

A page is drawn each time it is asked for. Only pages that were edited, added or deleted are kept.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate_sandbox.roam import uids
from headgate_sandbox.roam.page import (
    BLOCK,
    DAILY,
    MINUTE_MS,
    Block,
    Head,
    Page,
    draw_page,
    draw_title,
)

PAGES_MAX = 1_000_000
ADDED_MAX = 100_000
DEPTH_MAX = 20
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
        #: The pages of the blocks on edited and added pages, by the block's uid.
        self._homes: dict[str, str] = {}
        #: The edited and added pages by title, and what each had when it was last kept.
        self._titles: dict[str, str] = {}
        self._kept: dict[str, tuple[str, list[str]]] = {}
        self._drawn_titles: dict[str, str] | None = None
        #: What `edits` tells of drawn pages, which would have to be drawn to tell it again.
        self._drawn_edits: dict[str, tuple[int, int]] = {}
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
                yield head_of(page)

    def head(self, uid: str) -> Head | None:
        """The page of that uid, without its blocks."""
        if uid in self._changed:
            page = self._changed[uid]
            return None if page is None else head_of(page)
        index = self._index(uid)
        return None if index is None else self._head(index)

    def page(self, uid: str) -> Page | None:
        """The page of that uid."""
        if uid in self._changed:
            return self._changed[uid]
        index = self._index(uid)
        return None if index is None else self._draw(index)

    def page_with(self, uid: str) -> Page | None:
        """The page of that uid, or the page that has a block of that uid."""
        # The homes first: a block may have got the uid of a page that was deleted.
        if uid in self._homes:
            return self._changed[self._homes[uid]]
        page = self.page(uid)
        if page is not None or uid in self._changed:
            return page
        number = uids.number_of(uid)
        if number is None or number // BLOCK >= self._drawn:
            return None
        # On an edited page, the blocks that it still has are among the homes.
        home = self._head(number // BLOCK).uid
        page = None if home in self._changed else self.page(home)
        return page if page and any(node.uid == uid for node in page.everything()) else None

    def block(self, uid: str) -> tuple[Block, int] | None:
        """The block of that uid, with its order below what it is on."""
        page = self.page_with(uid)
        for parent in page.everything() if page else ():
            for order, block in enumerate(parent.children):
                if block.uid == uid:
                    return block, order
        return None

    def edits(self, uid: str) -> tuple[int, int]:
        """How many blocks a page has, and the latest edit of any; (0, 0) if there is none."""
        if uid in self._changed:
            return _edits_on(self._changed[uid])
        if uid not in self._drawn_edits:
            self._drawn_edits[uid] = _edits_on(self.page(uid))
        return self._drawn_edits[uid]

    def uid_titled(self, title: str) -> str | None:
        """The uid of the page of that title, without drawing the page."""
        if title in self._titles:
            return self._titles[title]
        if self._drawn_titles is None:
            heads = (self._head(index) for index in range(self._drawn))
            self._drawn_titles = {head.title: head.uid for head in heads}
        uid = self._drawn_titles.get(title)
        return None if uid in self._changed else uid

    # Edits.

    def add(self, new: NewPage) -> Page:
        """Add a page, made now."""
        if not new.title:
            raise InvalidInput("title", "must not be empty")
        page = self.new_page(new.title)
        page.children = [self._make(block, depth=1) for block in new.blocks]
        self.keep(page)
        return page

    def new_page(self, title: str, uid: str | None = None) -> Page:
        """Make a page, which is not in the graph until `keep`; a daily note by its uid."""
        now_ms, new_uid = self.now_ms(), self._next_uid()
        day = None if uid is None else uids.day_of(uid)
        return Page(
            uid=uid or new_uid,
            title=title,
            create_ms=now_ms,
            edit_ms=now_ms,
            log_id=None if day is None else _midnight_ms(day),
        )

    def new_block(self, string: str, uid: str | None = None) -> Block:
        """Make a block, which is not in the graph until its page is kept."""
        now_ms, new_uid = self.now_ms(), self._next_uid()
        return Block(
            uid=uid or new_uid,
            string=string,
            create_ms=now_ms,
            edit_ms=now_ms,
        )

    def keep(self, page: Page) -> None:
        """Take a new or edited page into the graph."""
        self._leave(page.uid)
        self._changed[page.uid] = page
        blocks = [node.uid for node in page.everything() if node is not page]
        self._homes |= dict.fromkeys(blocks, page.uid)
        self._titles[page.title] = page.uid
        self._kept[page.uid] = (page.title, blocks)

    def edit(self, edit: Edit) -> Page:
        """Change a page; as in Roam, only the changed page or block gets a new edit time."""
        page = self.page(edit.page)
        if page is None:
            raise InvalidInput("page", f"there is no page {edit.page}")
        parents = {child.uid: node for node in page.everything() for child in node.children}
        for field, uid in (("block", edit.block), ("remove", edit.remove)):
            if uid is not None and uid not in parents:
                raise InvalidInput(field, f"there is no block {uid} on that page")
        now_ms = self.now_ms()
        if edit.block is not None and edit.string is not None:
            block = next(each for each in page.everything() if each.uid == edit.block)
            assert isinstance(block, Block), "a page is nobody's child"
            block.string, block.edit_ms = edit.string, now_ms
        if edit.remove is not None:
            parent = parents[edit.remove]
            parent.children = [each for each in parent.children if each.uid != edit.remove]
            parent.edit_ms = now_ms
        if edit.append is not None:
            page.children = [*page.children, self.new_block(edit.append)]
        if edit.title is not None:
            page.title, page.edit_ms = edit.title, now_ms
        if (edit.block, edit.remove, edit.append) == (None, None, None):
            page.edit_ms = now_ms
        self.keep(page)
        return page

    def delete(self, uid: str) -> None:
        """Delete a page with all its blocks."""
        if self.page(uid) is None:
            raise InvalidInput("page", f"there is no page {uid}")
        self._leave(uid)
        self._changed[uid] = None

    def now_ms(self) -> int:
        """The time that an edit made now gets."""
        return int(self._clock.now().timestamp() * 1_000)

    # Helpers.

    def _leave(self, page_uid: str) -> None:
        title, blocks = self._kept.pop(page_uid, ("", []))
        if self._titles.get(title) == page_uid:
            del self._titles[title]
        for uid in blocks:
            # A block that was moved is at home elsewhere by now.
            if self._homes.get(uid) == page_uid:
                del self._homes[uid]

    def _head(self, index: int) -> Head:
        number = index * BLOCK
        if index % DAILY:
            day = self._newest - timedelta(days=index % 1_000)
            title, uid = draw_title(self._seed, self.name, number), uids.uid_of(number)
        else:
            day = self._newest - timedelta(days=index // DAILY)
            title, uid = uids.daily_title(day), uids.daily_uid(day)
        midnight_ms = _midnight_ms(day)
        return Head(
            uid=uid,
            title=title,
            create_ms=midnight_ms,
            edit_ms=midnight_ms + MINUTE_MS,
            log_id=None if index % DAILY else midnight_ms,
        )

    def _draw(self, index: int) -> Page:
        return draw_page(self._seed, self.name, index, self._head(index))

    def _index(self, uid: str) -> int | None:
        """The index of the drawn page with that uid; None if there is none."""
        day = uids.day_of(uid)
        if day is not None:
            index = (self._newest - day).days * DAILY
            return index if 0 <= index < self._drawn else None
        number = uids.number_of(uid)
        if number is None or number % BLOCK:
            return None
        index = number // BLOCK
        return index if index < self._drawn and index % DAILY else None

    def _make(self, new: NewBlock, *, depth: int) -> Block:
        if depth > DEPTH_MAX:
            raise InvalidInput("blocks", f"must not be deeper than {DEPTH_MAX}")
        block = self.new_block(new.string)
        block.children = [self._make(child, depth=depth + 1) for child in new.children]
        return block

    def _next_uid(self) -> str:
        if self._made >= ADDED_MAX:
            raise InvalidInput("blocks", f"{ADDED_MAX} pages and blocks were added already")
        self._made += 1
        return uids.uid_of(_FIRST_ADDED + self._made)


def head_of(page: Page) -> Head:
    """What is known of a page without its blocks."""
    return Head(
        uid=page.uid,
        title=page.title,
        create_ms=page.create_ms,
        edit_ms=page.edit_ms,
        log_id=page.log_id,
        view_type=page.view_type,
    )


def _edits_on(page: Page | None) -> tuple[int, int]:
    times = [node.edit_ms for node in page.everything() if node is not page] if page else []
    return len(times), max(times, default=0)


def _midnight_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000
