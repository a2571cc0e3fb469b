"""This module parses selectors, and pulls what they select from a page or block.

As at Roam, children come in no particular order; only `:block/order` tells it.
"""

import msgspec

from headgate.base.encoding import JsonObject
from headgate.sandbox.kit.seeded import draw
from headgate.sandbox.roam.edn import BadEdn, Edn, Keyword, Symbol
from headgate.sandbox.roam.page import Block, Node, Page
from headgate.sandbox.roam.uids import day_of, number_of

CHILDREN = "block/children"
#: The depth of `...`: deeper than any page.
_ENDLESS = 1_000


class TookTooLong(Exception):
    """The request asks for more than Roam can answer within its limit of twenty seconds."""


class Selector(msgspec.Struct, frozen=True):
    """The attributes to pull, and what to pull from the children."""

    attributes: tuple[str, ...]
    #: The selector contains `*`, for all attributes.
    everything: bool = False
    #: The selector for the children. If None, `levels` decides whether this same one applies.
    children: "Selector | None" = None
    #: How many levels of descendants this same selector applies to.
    levels: int = 0


class Puller:
    """Pulls nodes for one request, and counts them."""

    def __init__(self, seed: int, nodes_max: int) -> None:
        """Give up beyond `nodes_max` nodes."""
        self._seed = seed
        self._left = nodes_max

    def pull(self, node: Node, selector: Selector, order: int | None = None) -> JsonObject:
        """Pull what the selector selects from the node and its descendants."""
        return self._pull(node, selector, selector.levels, order)

    def _pull(self, node: Node, selector: Selector, levels: int, order: int | None) -> JsonObject:
        self._left -= 1
        if self._left < 0:
            raise TookTooLong
        known = _attributes(node, order)
        names = known if selector.everything else selector.attributes
        pulled = {f":{name}": known[name] for name in names if name in known}
        below = self._children(node, selector, levels)
        # Like Datomic, leave out the key if there are no children.
        return {**pulled, f":{CHILDREN}": below} if below else pulled

    def _children(self, node: Node, selector: Selector, levels: int) -> list[JsonObject]:
        if selector.children is not None:
            pulled = [
                self._pull(child, selector.children, selector.children.levels, order)
                for order, child in enumerate(node.children)
            ]
        elif levels > 0:
            pulled = [
                self._pull(child, selector, levels - 1, order)
                for order, child in enumerate(node.children)
            ]
        elif selector.everything or CHILDREN in selector.attributes:
            pulled = [{":db/id": db_id(child.uid)} for child in node.children]
        else:
            return []
        draw(self._seed, "shuffle", node.uid).shuffle(pulled)
        return pulled


def selector_of(form: Edn) -> Selector:
    """Parse a selector from an EDN vector; raises BadEdn."""
    if not isinstance(form, list) or not form:
        raise BadEdn("a selector is a vector of attributes")
    attributes: list[str] = []
    children: Selector | None = None
    everything, levels = False, 0
    for each in form:
        if isinstance(each, Keyword):
            attributes.append(each.name)
        elif each in (Symbol("*"), "*"):
            everything = True
        elif isinstance(each, dict):
            below, deeper = _nested(each)
            children, levels = below or children, deeper or levels
        else:
            raise BadEdn(f"{each!r} is no attribute")
    return Selector(tuple(attributes), everything, children, levels)


def _nested(form: dict[Edn, Edn]) -> tuple[Selector | None, int]:
    """The children's selector and levels in a map; the sandbox nests no other attribute."""
    below, levels = None, 0
    for name, value in form.items():
        if not isinstance(name, Keyword):
            raise BadEdn(f"{name!r} is no attribute")
        if isinstance(value, list):
            nested = selector_of(value)
            below = nested if name.name == CHILDREN else below
        elif value == Symbol("..."):
            levels = _ENDLESS if name.name == CHILDREN else levels
        elif isinstance(value, int) and value > 0:
            levels = value if name.name == CHILDREN else levels
        else:
            raise BadEdn(f"{value!r} is neither a selector nor a depth")
    return below, levels


def db_id(uid: str) -> int:
    """The number of a node in the database."""
    day = day_of(uid)
    return day.toordinal() if day is not None else number_of(uid) or 0


def _attributes(node: Node, order: int | None) -> dict[str, object]:
    found: dict[str, object] = {
        "db/id": db_id(node.uid),
        "block/uid": node.uid,
        "create/time": node.create_ms,
        "edit/time": node.edit_ms,
    }
    if isinstance(node, Page):
        found["node/title"] = node.title
        if node.log_id is not None:
            found["log/id"] = node.log_id
    if isinstance(node, Block):
        found |= {"block/string": node.string, "block/open": True}
        if order is not None:
            found["block/order"] = order
    return found
