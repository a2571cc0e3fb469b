"""What a pull selects: attributes of a page or block, and those of its children and references.

As at Roam, children come in no particular order; only `:block/order` tells it.
"""

import re
from collections.abc import Sequence

from headgate.base.encoding import Json
from headgate_sandbox.kit.seeded import draw
from headgate_sandbox.roam.edn import BadForm, Form, Text
from headgate_sandbox.roam.graph import Graph
from headgate_sandbox.roam.page import Block, Head

#: As in Datomic, a reference gives at most this many entities, unless the selector sets no limit.
REFERENCES_MAX = 1_000
CHILDREN, REFS = ":block/children", ":block/refs"
_HOW = (
    "the sandbox pulls attributes, and {:block/children […]} and {:block/refs […]} with a pattern "
    "or `...`, where (limit :block/children nil) may stand for either"
)
_LINK = re.compile(r"\[\[((?:[^\[\]]|\[\[[^\[\]]*\]\])+)\]\]|#([\w/-]+)|\(\(([\w-]{3,})\)\)")

#: A page, or a block with its order.
Entity = Head | tuple[Block, int]


class TookTooLong(Exception):
    """The request asks for more than Roam can answer within its limit of twenty seconds."""


class Effort:
    """The work that one request may cause, as a count of the pages and blocks that it looks at."""

    def __init__(self, nodes_max: int) -> None:
        """Give up beyond `nodes_max`."""
        self._left = nodes_max

    def spend(self, nodes: int = 1) -> None:
        """Count some work; raises TookTooLong."""
        self._left -= nodes
        if self._left < 0:
            raise TookTooLong


class Puller:
    """Pulls entities of a graph for one request."""

    def __init__(self, graph: Graph, seed: int, effort: Effort) -> None:
        """Pull from `graph` until the effort is spent."""
        self._graph = graph
        self._seed = seed
        self._effort = effort

    def find(self, eid: Form) -> Entity | None:
        """The entity of a lookup ref such as `[:block/uid "x"]`; None if there is none."""
        match eid:
            case ["[", ":block/uid", Text(value=uid)]:
                return self._graph.head(uid) or self._graph.block(uid)
            case ["[", ":node/title", Text(value=title)]:
                return self._titled(title)
        raise BadForm('The sandbox finds by [:block/uid "…"] and [:node/title "…"]')

    def pull(self, entity: Entity, selector: Form) -> dict[str, Json]:
        """What the selector selects; raises BadForm, or TookTooLong."""
        if not isinstance(selector, list) or selector[0] != "[" or len(selector) < 2:
            raise BadForm(f"Cannot parse pull pattern: {_HOW}")
        self._effort.spend()
        known = _attributes(entity)
        pulled: dict[str, Json] = {}
        for each in selector[1:]:
            if isinstance(each, list):
                pulled |= self._references(entity, each, selector)
            elif not isinstance(each, str) or not each.startswith(":") or each in (CHILDREN, REFS):
                raise BadForm(f"Cannot parse pull pattern: {_HOW}")
            elif known.get(each) is not None:
                pulled[each] = known[each]
        return pulled

    def _references(self, entity: Entity, form: list[Form], selector: Form) -> dict[str, Json]:
        """An attribute with the entities that it refers to; nothing if there are none."""
        match form:
            case ["{", ["(", "limit", str(name), "nil"], below]:
                limit = None
            case ["{", str(name), below]:
                limit = REFERENCES_MAX
            case _:
                raise BadForm(f"Cannot parse pull pattern: {_HOW}")
        if name not in (CHILDREN, REFS):
            raise BadForm(f"Cannot parse pull pattern: {_HOW}")
        found = self._children(entity) if name == CHILDREN else self._links(entity)
        wanted = selector if below == "..." else below
        pulled = [self.pull(each, wanted) for each in found[:limit]]
        draw(self._seed, "shuffle", _attributes(entity)[":block/uid"]).shuffle(pulled)
        return {name: pulled} if pulled else {}

    def _children(self, entity: Entity) -> Sequence[Entity]:
        node = self._graph.page(entity.uid) if isinstance(entity, Head) else entity[0]
        return [] if node is None else [(child, at) for at, child in enumerate(node.children)]

    def _links(self, entity: Entity) -> Sequence[Entity]:
        """What the text of a block refers to, once each."""
        if isinstance(entity, Head):
            return []
        found: dict[str, Entity] = {}
        for title, tag, uid in _LINK.findall(entity[0].string):
            linked = self._graph.block(uid) if uid else self._titled(title or tag)
            if linked is not None:
                found[uid or title or tag] = linked
        return list(found.values())

    def _titled(self, title: str) -> Head | None:
        uid = self._graph.uid_titled(title)
        return None if uid is None else self._graph.head(uid)


def _attributes(entity: Entity) -> dict[str, Json]:
    node = entity if isinstance(entity, Head) else entity[0]
    shared = {
        ":block/uid": node.uid,
        ":create/time": node.create_ms,
        ":edit/time": node.edit_ms,
        # As Roam's JSON shows a keyword.
        ":children/view-type": None if node.view_type is None else f":{node.view_type}",
    }
    if isinstance(entity, Head):
        return {**shared, ":node/title": entity.title, ":log/id": entity.log_id}
    block, order = entity
    return {
        **shared,
        ":block/string": block.string,
        ":block/order": order,
        ":block/open": block.open,
        ":block/heading": block.heading or None,
        ":block/text-align": block.text_align,
    }
