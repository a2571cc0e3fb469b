"""This module carries out the actions of `write` on a graph.

As at Roam, an edit gives the edited page or block a new edit time, and neither its page nor its
parents. What is deleted or moved away cannot show the time any more: what it was below does.
"""

from headgate.base.encoding import Json
from headgate.base.errors import InvalidInput
from headgate.sandbox.roam import uids
from headgate.sandbox.roam.actions import (
    Action,
    BadAction,
    BlockFields,
    CreateBlock,
    CreatePage,
    DailyNote,
    DeleteBlock,
    DeletePage,
    Location,
    MoveBlock,
    PageFields,
    Uid,
    UpdateBlock,
    UpdatePage,
)
from headgate.sandbox.roam.graph import Graph
from headgate.sandbox.roam.page import Block, Node, Page


class Writer:
    """Carries out the actions of one request."""

    def __init__(self, graph: Graph, *, batch: bool = False) -> None:
        """Write to `graph`; only a batch may have numbers that stand for uids."""
        self._graph = graph
        self._batch = batch
        #: The uids that the negative numbers of a batch stand for.
        self.tempids: dict[str, Json] = {}

    def carry_out(self, action: Action) -> None:
        """Carry out one action, or nothing of it; raises BadAction."""
        try:
            self._carry_out(action)
        except InvalidInput as error:
            raise BadAction(str(error)) from None

    def _carry_out(self, action: Action) -> None:
        match action:
            case CreateBlock():
                self._create_block(action)
            case MoveBlock():
                self._move_block(action)
            case UpdateBlock():
                page, block = self._block(action.block.uid)
                self._set_block(block, action.block)
                block.edit_ms = self._graph.now_ms()
                self._graph.keep(page)
            case DeleteBlock():
                page, block = self._block(action.block.uid)
                self._detach(page, block)
                self._graph.keep(page)
            case CreatePage():
                self._create_page(action.page)
            case UpdatePage():
                self._update_page(action.page)
            case DeletePage():
                self._graph.delete(self._page(action.page.uid).uid)

    def _create_block(self, action: CreateBlock) -> None:
        page, parent = self._place(action.location)
        block = self._graph.new_block(action.block.string or "", self._free_uid(action.block.uid))
        self._set_block(block, action.block)
        _insert(parent, block, action.location.order)
        self._name(action.block.uid, block)
        self._graph.keep(page)

    def _move_block(self, action: MoveBlock) -> None:
        old_page, block = self._block(action.block.uid)
        new_page, parent = self._place(action.location)
        if new_page.uid == old_page.uid:
            # Drawn twice, they would be two copies of the same page.
            new_page, parent = old_page, _node_on(old_page, parent.uid)
        if any(node is parent for node in block.everything()):
            raise BadAction("move-block: a block cannot be moved below itself")
        self._detach(old_page, block, touch=not any(each is block for each in parent.children))
        _insert(parent, block, action.location.order)
        block.edit_ms = self._graph.now_ms()
        self._graph.keep(old_page)
        self._graph.keep(new_page)

    def _create_page(self, fields: PageFields) -> None:
        title = fields.title or ""
        if self._graph.page_titled(title) is not None:
            raise BadAction(f'create-page: page with title "{title}" already exists')
        page = self._graph.new_page(title, self._free_uid(fields.uid))
        page.view_type = fields.children_view_type
        self._name(fields.uid, page)
        self._graph.keep(page)

    def _update_page(self, fields: PageFields) -> None:
        page = self._page(fields.uid)
        if fields.title is not None and fields.title != page.title:
            if not fields.title or self._graph.page_titled(fields.title) is not None:
                raise BadAction(f'update-page: page with title "{fields.title}" already exists')
            page.title = fields.title
        page.view_type = fields.children_view_type or page.view_type
        page.edit_ms = self._graph.now_ms()
        self._graph.keep(page)

    def _set_block(self, block: Block, fields: BlockFields) -> None:
        block.string = block.string if fields.string is None else fields.string
        block.open = block.open if fields.open is None else fields.open
        block.heading = block.heading if fields.heading is None else fields.heading
        block.text_align = fields.text_align or block.text_align
        block.view_type = fields.children_view_type or block.view_type

    def _detach(self, page: Page, block: Block, *, touch: bool = True) -> None:
        parent = next(node for node in page.everything() if block in node.children)
        parent.children = [each for each in parent.children if each is not block]
        if touch:
            parent.edit_ms = self._graph.now_ms()

    def _place(self, location: Location) -> tuple[Page, Node]:
        """The page and the node that a location names; the page may have to be made."""
        if location.parent_uid is not None:
            uid = self._uid(location.parent_uid)
            page = self._graph.page_with(uid)
            if page is None:
                raise BadAction(f'Parent entity with uid "{uid}" doesn\'t exist')
            return page, _node_on(page, uid)
        page = self._titled(location.page_title)
        return page, page

    def _titled(self, title: str | DailyNote | None) -> Page:
        if isinstance(title, DailyNote):
            day = uids.day_of(title.daily_note_page)
            if day is None:
                raise BadAction("location.page-title.daily-note-page is not MM-DD-YYYY")
            found = self._graph.page(title.daily_note_page)
            return found or self._graph.new_page(uids.daily_title(day), title.daily_note_page)
        if not title:
            raise BadAction("location.page-title is empty")
        return self._graph.page_titled(title) or self._graph.new_page(title)

    def _block(self, uid: Uid | None) -> tuple[Page, Block]:
        known = self._uid(uid)
        page = self._graph.page_with(known)
        node = None if page is None else _node_on(page, known)
        if page is None or not isinstance(node, Block):
            raise BadAction(f'Block with uid "{known}" doesn\'t exist')
        return page, node

    def _page(self, uid: Uid | None) -> Page:
        known = self._uid(uid)
        page = self._graph.page(known)
        if page is None:
            raise BadAction(f'Page with uid "{known}" doesn\'t exist')
        return page

    def _uid(self, uid: Uid | None) -> str:
        if isinstance(uid, str):
            return uid
        known = self.tempids.get(str(uid))
        if not isinstance(known, str):
            raise BadAction(f"tempid {uid} stands for nothing")
        return known

    def _free_uid(self, uid: Uid | None) -> str | None:
        """The uid for something new; None: one is made."""
        if isinstance(uid, int) and (uid >= 0 or not self._batch):
            raise BadAction("only a batch may have tempids, which are negative numbers")
        if isinstance(uid, int) and str(uid) in self.tempids:
            raise BadAction(f"tempid {uid} is used twice")
        if isinstance(uid, str) and (not uid or self._graph.node(uid) is not None):
            raise BadAction(f'uid "{uid}" already exists')
        return uid if isinstance(uid, str) else None

    def _name(self, uid: Uid | None, node: Node) -> None:
        if isinstance(uid, int):
            self.tempids[str(uid)] = node.uid


def _insert(parent: Node, block: Block, order: int | str) -> None:
    place = {"first": 0, "last": len(parent.children)}.get(str(order))
    place = place if place is not None else min(int(order), len(parent.children))
    parent.children = [*parent.children[:place], block, *parent.children[place:]]


def _node_on(page: Page, uid: str) -> Node:
    return next(node for node in page.everything() if node.uid == uid)
