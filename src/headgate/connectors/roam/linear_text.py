"""Turns a page into plain text, and maps any part of the text back to the blocks it comes from.

    [[Title]]
    - a block
      - one below it

The text depends on the page's content alone, so equal pages have equal text and equal hashes.
"""

import re
from bisect import bisect_left, bisect_right
from hashlib import sha256

import msgspec

from headgate.base.encoding import to_json
from headgate.connectors.roam.tree import RoamBlock, RoamPage

_INDENT = "  "
_BLOCK_REF = re.compile(r"\(\(([\w-]+)\)\)")


class TextSpan(msgspec.Struct, frozen=True, gc=False):
    """The part of a text that comes from one block, or from the title of the page."""

    uid: str
    #: In characters; `end` is the place after the last one.
    start: int
    end: int


class LinearText(msgspec.Struct, frozen=True):
    """A page as text, with the parts that its blocks have become."""

    text: str
    #: From top to bottom, without overlaps; the first one is the title.
    spans: tuple[TextSpan, ...]

    def uids_between(self, start: int, end: int) -> list[str]:
        """Return the uids of the blocks that the text from `start` to before `end` comes from."""
        return [span.uid for span in self.spans_between(start, end)]

    def spans_between(self, start: int, end: int) -> list[TextSpan]:
        """Return the parts that the text from `start` to before `end` is in, as a whole each."""
        first = bisect_right(self.spans, start, key=lambda span: span.end)
        last = bisect_left(self.spans, end, key=lambda span: span.start)
        return list(self.spans[first:last])

    @property
    def content_hash(self) -> str:
        """The SHA-256 of the text and of the blocks it comes from."""
        # With the uids: a block that was made again has the same text and another address.
        uids = [span.uid for span in self.spans]
        return sha256(to_json([self.text, uids]).encode("utf-8", "surrogatepass")).hexdigest()


def linearise(page: RoamPage) -> LinearText:
    """Return the page as text."""
    lines = [f"[[{page.title}]]"]
    spans = [TextSpan(page.uid, 0, len(lines[0]))]
    for block, depth in page.blocks():
        # After the end of the line above, and the indent of this one.
        start = spans[-1].end + 1 + len(_INDENT) * depth
        shown = _shown(block)
        lines.append(_INDENT * depth + shown)
        spans.append(TextSpan(block.uid, start, start + len(shown)))
    return LinearText("\n".join(lines), tuple(spans))


def _shown(block: RoamBlock) -> str:
    """A block's own text, with the text of the blocks that it refers to."""
    texts = {ref.uid: ref.string for ref in block.refs if ref.string is not None}
    string = _BLOCK_REF.sub(lambda found: texts.get(found[1], found[0]), block.string)
    return f"- {'#' * block.heading + ' ' if block.heading else ''}{string}"
