"""A page of Roam with its tree of blocks, parsed from what a pull gives.

A tree has no cycles, and there are many blocks: so the garbage collector is spared them.
"""

from collections.abc import Iterator

import msgspec

from headgate.base.errors import Malformed

#: What is pulled of every page: the selector of its blocks applies to all levels.
_BLOCK = (
    ":block/uid :block/string :block/order :block/heading :edit/time "
    "{:block/refs [:block/uid :node/title :block/string]}"
)
SELECTOR = (
    "[:block/uid :node/title :create/time :edit/time "
    f"{{:block/children [{_BLOCK} {{:block/children ...}}]}}]"
)
#: A pull gives at most this many children of a node, unless the selector says otherwise.
CHILDREN_MAX = 1_000
#: The same without that limit, for pages that may have more.
SELECTOR_OF_LONG = SELECTOR.replace(":block/children", "(limit :block/children nil)")


class RoamRef(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A page or block that a block refers to."""

    uid: str = msgspec.field(name=":block/uid", default="")
    #: The title of a page.
    title: str | None = msgspec.field(name=":node/title", default=None)
    #: The text of a block.
    string: str | None = msgspec.field(name=":block/string", default=None)


class RoamBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A block, with those below it in the order that a reader sees."""

    uid: str = msgspec.field(name=":block/uid")
    string: str = msgspec.field(name=":block/string", default="")
    order: int = msgspec.field(name=":block/order", default=0)
    #: 1, 2 or 3 for a heading; 0 for plain text.
    heading: int = msgspec.field(name=":block/heading", default=0)
    edit_ms: int = msgspec.field(name=":edit/time", default=0)
    refs: tuple[RoamRef, ...] = msgspec.field(name=":block/refs", default=())
    children: tuple["RoamBlock", ...] = msgspec.field(name=":block/children", default=())

    def __post_init__(self) -> None:
        """Sort the children: Roam gives them in no order."""
        if len(self.children) > 1:
            msgspec.structs.force_setattr(self, "children", _sorted(self.children))


class RoamPage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A page with all its blocks."""

    uid: str = msgspec.field(name=":block/uid")
    title: str = msgspec.field(name=":node/title")
    create_ms: int = msgspec.field(name=":create/time", default=0)
    #: The page's own edit time, which does not move when a block is edited; see `edited_ms`.
    edit_ms: int = msgspec.field(name=":edit/time", default=0)
    children: tuple[RoamBlock, ...] = msgspec.field(name=":block/children", default=())

    def __post_init__(self) -> None:
        """Sort the children: Roam gives them in no order."""
        if len(self.children) > 1:
            msgspec.structs.force_setattr(self, "children", _sorted(self.children))

    def blocks(self) -> Iterator[tuple[RoamBlock, int]]:
        """Yield every block from top to bottom, with its depth."""
        # Without recursion: a page may be as deep as it likes.
        left = [(block, 0) for block in reversed(self.children)]
        while left:
            block, depth = left.pop()
            yield block, depth
            left += [(child, depth + 1) for child in reversed(block.children)]

    @property
    def edited_ms(self) -> int:
        """When the page or anything on it was last edited, in milliseconds since the epoch."""
        times = (block.edit_ms for block, _ in self.blocks())
        return max(self.edit_ms or self.create_ms, *times, 0)

    @property
    def may_be_cut(self) -> bool:
        """Whether a pull with the usual limit may have left out children."""
        nodes = [self.children, *(block.children for block, _ in self.blocks())]
        return any(len(children) >= CHILDREN_MAX for children in nodes)


class _Identity(msgspec.Struct, frozen=True):
    uid: str | None = msgspec.field(name=":block/uid", default=None)
    title: str | None = msgspec.field(name=":node/title", default=None)


def parse_page(uid: str, pulled: msgspec.Raw) -> RoamPage | None:
    """Parse what was pulled for a uid; None if there is no page of that uid.

    Raises Malformed if it is another page, or cannot be read.
    """
    try:
        found = msgspec.json.decode(pulled, type=_Identity | None)
        if found is None or found.uid is None or found.title is None:
            return None
        if found.uid != uid:
            raise Malformed(f"Roam gave the page {found.uid} where {uid} was asked for")
        return msgspec.json.decode(pulled, type=RoamPage)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(
            f"Roam gave the page {uid} in a form that cannot be read: {error}"
        ) from None


def _sorted(blocks: tuple[RoamBlock, ...]) -> tuple[RoamBlock, ...]:
    # By uid too, so that two blocks of the same order do not change places.
    return tuple(sorted(blocks, key=lambda block: (block.order, block.uid)))
