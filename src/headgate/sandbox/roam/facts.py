"""This module shows a graph as Datalog sees it: entities with attributes that refer to each other.

Pages are loaded when something asks for their blocks, and only changed pages are loaded again.
"""

import re
from collections.abc import Iterator, Sequence

from headgate.base.encoding import Json
from headgate.sandbox.roam.graph import Graph, head_of
from headgate.sandbox.roam.page import Block, Head, Node

CHILDREN, PARENTS, PAGE, REFS = "block/children", "block/parents", "block/page", "block/refs"
#: The attributes whose values are entities.
REFERENCES = frozenset({CHILDREN, PARENTS, PAGE, REFS})
#: The references of which an entity has one at most.
SINGLE = frozenset({PAGE})
UID, TITLE = "block/uid", "node/title"
#: Only pages have these, so that no blocks are loaded to find them.
_OF_PAGES = frozenset({TITLE, "log/id"})
_LINK = re.compile(r"\[\[((?:[^\[\]]|\[\[[^\[\]]*\]\])+)\]\]|#([\w/-]+)|\(\(([\w-]{3,})\)\)")


class TookTooLong(Exception):
    """The request asks for more than Roam can answer within its limit of twenty seconds."""


class Effort:
    """The work that one request may cause, as a count of what it looks at."""

    def __init__(self, steps_max: int) -> None:
        """Give up beyond `steps_max`."""
        self._left = steps_max

    def spend(self, steps: int = 1) -> None:
        """Count some work; raises TookTooLong."""
        self._left -= steps
        if self._left < 0:
            raise TookTooLong


class Entity:
    """A page or a block, with its place in the graph."""

    __slots__ = ("attributes", "children", "id", "loaded", "page", "parent", "uid")

    def __init__(
        self, number: int, attributes: dict[str, Json], parent: "Entity | None" = None
    ) -> None:
        """Begin without children."""
        # Zero would be falsy, and is no entity of Roam's.
        self.id = number + 1
        self.uid = str(attributes[UID])
        self.attributes = {"db/id": self.id, **attributes}
        self.parent = parent
        self.page: Entity = self if parent is None else parent.page
        self.children: list[Entity] = []
        self.loaded = parent is not None

    @property
    def is_page(self) -> bool:
        """Whether it is a page."""
        return self.parent is None

    def ancestors(self) -> "Iterator[Entity]":
        """What it is below, the nearest first; the page is the last."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def everything(self) -> "Iterator[Entity]":
        """This entity and all that was loaded below it."""
        yield self
        for child in self.children:
            yield from child.everything()


class Facts:
    """The entities of one graph."""

    def __init__(self, graph: Graph) -> None:
        """Show `graph`."""
        self._graph = graph
        self._pages: dict[str, Entity] | None = None
        self._by_id: dict[int, Entity] = {}
        #: The blocks that were loaded, by their uids.
        self._blocks: dict[str, Entity] = {}
        self._indexes: dict[str, dict[Json, list[Entity]]] = {}

    def refresh(self) -> None:
        """Forget what changed since the last request."""
        dirty, self._graph.dirty = self._graph.dirty, set()
        if self._pages is None or not dirty:
            return
        self._indexes.clear()
        for uid in dirty:
            known = self._pages.pop(uid, None)
            for each in known.everything() if known else ():
                # A moved block has one entry, of whichever of its pages was loaded last. Both
                # pages changed, so that it may be gone already.
                self._by_id.pop(each.id, None)
                self._blocks.pop(each.uid, None)
        for uid in dirty:
            page = self._graph.page(uid)
            if page is not None:
                self._add_page(head_of(page))

    def pages(self) -> dict[str, Entity]:
        """Every page by its uid."""
        if self._pages is None:
            self._pages = {}
            for head in self._graph.heads():
                self._add_page(head)
        return self._pages

    def find(self, uid: str) -> Entity | None:
        """The page or block of that uid."""
        known = self.pages().get(uid) or self._blocks.get(uid)
        if known is not None:
            return known
        page = self._graph.page_with(uid)
        if page is not None:
            self._load(self.pages()[page.uid])
        return self._blocks.get(uid)

    def titled(self, title: str) -> Entity | None:
        """The page of that title."""
        uid = self._graph.uid_titled(title)
        return None if uid is None else self.pages()[uid]

    def entity(self, number: object) -> Entity | None:
        """The entity of that number in the database."""
        if not isinstance(number, int):
            return None
        if number not in self._by_id:
            self.all()
        return self._by_id.get(number)

    def all(self) -> Iterator[Entity]:
        """Every page and block."""
        found = list(self.pages().values())
        for page in found:
            self._load(page)
        return (each for page in found for each in page.everything())

    def holders(self, attribute: str, effort: Effort) -> Iterator[Entity]:
        """Every entity that may have that attribute."""
        if attribute in _OF_PAGES:
            return iter(self.pages().values())
        # Before anything is loaded: a graph may have a million pages.
        effort.spend(len(self.pages()))
        return self.all()

    def holders_of(self, attribute: str, value: Json, effort: Effort) -> Sequence[Entity]:
        """The entities whose attribute has that value."""
        if attribute == UID or attribute == TITLE:
            find = self.find if attribute == UID else self.titled
            found = find(value) if isinstance(value, str) else None
            return [] if found is None else [found]
        index = self._indexes.get(attribute)
        if index is None:
            index = self._indexes[attribute] = {}
            for each in self.holders(attribute, effort):
                for one in self.values(each, attribute):
                    index.setdefault(one, []).append(each)
        return index.get(value, [])

    def values(self, entity: Entity, attribute: str) -> list[Json]:
        """The values of an attribute; entities are given by their numbers."""
        if attribute in REFERENCES:
            return [each.id for each in self.references(entity, attribute)]
        value = entity.attributes.get(attribute)
        return [] if value is None else [value]

    def references(self, entity: Entity, attribute: str) -> list[Entity]:
        """The entities that one refers to by an attribute."""
        if attribute == CHILDREN:
            return self._load(entity).children
        if attribute == PARENTS:
            return list(entity.ancestors())
        if attribute == PAGE:
            return [] if entity.is_page else [entity.page]
        return self._links(entity)

    def _links(self, entity: Entity) -> list[Entity]:
        text = str(entity.attributes.get("block/string", ""))
        found: dict[int, Entity] = {}
        for title, tag, uid in _LINK.findall(text):
            linked = self.find(uid) if uid else self.titled(title or tag)
            if linked is not None:
                found[linked.id] = linked
        return list(found.values())

    def _add_page(self, head: Head) -> None:
        assert self._pages is not None
        page = Entity(head.number, _page_attributes(head))
        self._pages[page.uid] = self._by_id[page.id] = page

    def _load(self, entity: Entity) -> Entity:
        if entity.loaded:
            return entity
        page = self._graph.page(entity.uid)
        assert page is not None, "a deleted page is no entity"
        entity.loaded = True
        self._add_children(entity, page)
        return entity

    def _add_children(self, parent: Entity, node: Node) -> None:
        for order, child in enumerate(node.children):
            entity = Entity(child.number, _block_attributes(child, order), parent)
            parent.children.append(entity)
            self._by_id[entity.id] = self._blocks[entity.uid] = entity
            self._add_children(entity, child)


def _page_attributes(head: Head) -> dict[str, Json]:
    known = {
        UID: head.uid,
        TITLE: head.title,
        "create/time": head.create_ms,
        "edit/time": head.edit_ms,
        "log/id": head.log_id,
        "children/view-type": _keyword(head.view_type),
    }
    return {name: value for name, value in known.items() if value is not None}


def _block_attributes(block: Block, order: int) -> dict[str, Json]:
    known = {
        UID: block.uid,
        "block/string": block.string,
        "block/order": order,
        "block/open": block.open,
        "block/heading": block.heading or None,
        "block/text-align": block.text_align,
        "children/view-type": _keyword(block.view_type),
        "create/time": block.create_ms,
        "edit/time": block.edit_ms,
    }
    return {name: value for name, value in known.items() if value is not None}


def _keyword(name: str | None) -> str | None:
    """As Roam's JSON shows a keyword."""
    return None if name is None else f":{name}"
