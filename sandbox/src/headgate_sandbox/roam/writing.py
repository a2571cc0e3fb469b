"""What the actions of `write` do to a graph.

As at Roam, an edit gives the edited page or block a new edit time, and neither its page nor its
parents. What is deleted or moved away cannot show the time any more: what it was below does.
"""

from headgate.base.errors import InvalidInput
from headgate_sandbox.roam.actions import (
    Action,
    BadAction,
    BlockChange,
    BlockToMake,
    CreateBlock,
    CreatePage,
    DeleteBlock,
    DeletePage,
    Location,
    MoveBlock,
    PageChange,
    UpdateBlock,
    UpdatePage,
)
from headgate_sandbox.roam.graph import Graph
from headgate_sandbox.roam.page import Block, Node, Page


def carry_out(graph: Graph, action: Action) -> None:
    """Carry out an action, or nothing of it; raises BadAction."""
    try:
        Writer(graph).carry_out(action)
    except InvalidInput as error:
        raise BadAction(str(error)) from None


class Writer:
    """Carries out the action of one request."""

    def __init__(self, graph: Graph) -> None:
        """Write to `graph`."""
        self._graph = graph

    def carry_out(self, action: Action) -> None:
        """Carry out an action; nothing is kept before all of it is known to work."""
        match action:
            case CreateBlock():
                self._create_block(action)
            case MoveBlock():
                self._move_block(action)
            case UpdateBlock():
                page, block = self._block(action.block.uid)
                _set_block(block, action.block)
                block.edit_ms = self._graph.now_ms()
                self._graph.keep(page)
            case DeleteBlock():
                page, block = self._block(action.block.uid)
                self._detach(page, block)
                self._graph.keep(page)
            case CreatePage(page=new):
                self._check_title(new.title)
                page = self._graph.new_page(new.title, self._free_uid(new.uid))
                page.view_type = new.children_view_type
                self._graph.keep(page)
            case UpdatePage():
                self._update_page(action.page)
            case DeletePage():
                self._graph.delete(self._page(action.page.uid).uid)

    def _create_block(self, action: CreateBlock) -> None:
        page, parent = self._place(action.location)
        block = self._graph.new_block(action.block.string, self._free_uid(action.block.uid))
        _set_block(block, action.block)
        _insert(parent, block, action.location.order)
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

    def _update_page(self, change: PageChange) -> None:
        page = self._page(change.uid)
        if change.title is not None and change.title != page.title:
            self._check_title(change.title)
            page.title = change.title
        page.view_type = change.children_view_type or page.view_type
        page.edit_ms = self._graph.now_ms()
        self._graph.keep(page)

    def _detach(self, page: Page, block: Block, *, touch: bool = True) -> None:
        parent = next(node for node in page.everything() if block in node.children)
        parent.children = [each for each in parent.children if each is not block]
        if touch:
            parent.edit_ms = self._graph.now_ms()

    def _place(self, location: Location) -> tuple[Page, Node]:
        """The page and the node that a location names."""
        page = self._graph.page_with(location.parent_uid)
        if page is None:
            raise BadAction(f'Parent entity with uid "{location.parent_uid}" doesn\'t exist')
        return page, _node_on(page, location.parent_uid)

    def _block(self, uid: str) -> tuple[Page, Block]:
        page = self._graph.page_with(uid)
        node = None if page is None else _node_on(page, uid)
        if page is None or not isinstance(node, Block):
            raise BadAction(f'Block with uid "{uid}" doesn\'t exist')
        return page, node

    def _page(self, uid: str) -> Page:
        page = self._graph.page(uid)
        if page is None:
            raise BadAction(f'Page with uid "{uid}" doesn\'t exist')
        return page

    def _check_title(self, title: str) -> None:
        if self._graph.uid_titled(title) is not None:
            raise BadAction(f'page with title "{title}" already exists')

    def _free_uid(self, uid: str | None) -> str | None:
        """The uid for something new; None: one is made."""
        if uid is not None and self._graph.page_with(uid) is not None:
            raise BadAction(f'uid "{uid}" already exists')
        return uid


def _set_block(block: Block, fields: BlockToMake | BlockChange) -> None:
    block.string = block.string if fields.string is None else fields.string
    block.open = block.open if fields.open is None else fields.open
    block.heading = block.heading if fields.heading is None else fields.heading
    block.text_align = fields.text_align or block.text_align
    block.view_type = fields.children_view_type or block.view_type


def _insert(parent: Node, block: Block, order: int | str) -> None:
    place = {"first": 0, "last": len(parent.children)}.get(str(order))
    place = place if place is not None else min(int(order), len(parent.children))
    parent.children = [*parent.children[:place], block, *parent.children[place:]]


def _node_on(page: Page, uid: str) -> Node:
    return next(node for node in page.everything() if node.uid == uid)
