"""Searches a graph by meaning: finds the nearest pieces, and in each the block that fits best.

A piece has several blocks, and its vector is a mixture of theirs. So the blocks of more pieces than
are asked for are compared with the question too, and the best ones are the result.
"""

import math
import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate import InvalidInput
from headgate.connectors.vectors import SearchHit, Vector
from headgate.systems.notes_index.graph_index import BlockPart, GraphIndex, decode_blocks

LIMIT_MAX = 100
QUERY_LENGTH_MAX = 2_000
SNIPPET_LENGTH_MAX = 400
#: How many pieces are looked into for each result that is wanted, and at least.
PIECES_PER_RESULT, PIECES_MIN = 5, 50
#: A block counts by itself, by the piece around it, and by the words of the question that it has.
BLOCK_WEIGHT, PIECE_WEIGHT, WORDS_WEIGHT = 0.5, 0.2, 0.3

_WORD = re.compile(r"\w+")


class PageName(msgspec.Struct, frozen=True, kw_only=True):
    """The page that a block is on."""

    uid: str
    title: str


class NoteHit(msgspec.Struct, frozen=True, kw_only=True):
    """A block that was found."""

    page: PageName
    block_uid: Annotated[str, Meta(description="The page's own uid, if it is the title.")]
    snippet: Annotated[str, Meta(description="The text of the block.")]
    score: Annotated[float, Meta(description="How well it fits; 1.0 is the best.")]


class NoteHits(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks, the best first."""

    data: Sequence[NoteHit]


class _BlockCandidate(msgspec.Struct, frozen=True):
    piece: SearchHit
    block: BlockPart

    @property
    def text(self) -> str:
        return self.piece.text[self.block.start : self.block.end].removeprefix("- ").strip()


async def search(index: GraphIndex, query: str, *, limit: int = 10) -> NoteHits:
    """Return the blocks that fit a question best; none, if nothing is indexed yet."""
    if not query.strip() or len(query) > QUERY_LENGTH_MAX:
        raise InvalidInput("q", f"must have between 1 and {QUERY_LENGTH_MAX:,} characters")
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidInput("limit", f"must be between 1 and {LIMIT_MAX}")
    if not await index.exists():
        return NoteHits(data=[])
    embedder = index.indexes.embedder
    [wanted] = await embedder.embed([query])
    most = max(PIECES_MIN, limit * PIECES_PER_RESULT)
    pieces = await index.use(lambda collection: collection.search(wanted, limit=most))
    found = [
        _BlockCandidate(piece, block)
        for piece in pieces
        for block in decode_blocks(str(piece.metadata["blocks"]))
    ]
    vectors = await embedder.embed([each.text for each in found])
    words = _words(query)
    hits = [_hit(each, wanted, vector, words) for each, vector in zip(found, vectors, strict=True)]
    return NoteHits(data=_best(hits, limit))


def _hit(found: _BlockCandidate, wanted: Vector, vector: Vector, words: set[str]) -> NoteHit:
    shared = len(words & _words(found.text)) / len(words) if words else 0.0
    score = (
        BLOCK_WEIGHT * _cosine(wanted, vector)
        + PIECE_WEIGHT * found.piece.score
        + WORDS_WEIGHT * shared
    )
    return NoteHit(
        page=PageName(uid=found.piece.document_id, title=str(found.piece.metadata["title"])),
        block_uid=found.block.uid,
        snippet=_shorten(found.text),
        score=round(score, 4),
    )


def _best(hits: Sequence[NoteHit], limit: int) -> list[NoteHit]:
    """The best hits; a block that is in two pieces counts once."""
    best: dict[tuple[str, str], NoteHit] = {}
    for hit in sorted(hits, key=lambda each: (-each.score, each.page.uid, each.block_uid)):
        best.setdefault((hit.page.uid, hit.block_uid), hit)
    return list(best.values())[:limit]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _shorten(text: str) -> str:
    return text if len(text) <= SNIPPET_LENGTH_MAX else text[: SNIPPET_LENGTH_MAX - 1] + "…"


def _cosine(first: Vector, second: Vector) -> float:
    lengths = math.hypot(*first) * math.hypot(*second)
    product = math.fsum(one * other for one, other in zip(first, second, strict=True))
    return product / lengths if lengths else 0.0
