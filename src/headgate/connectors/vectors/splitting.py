"""Splits text into pieces that are small enough to be embedded, with where each begins and ends."""

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from headgate.base.errors import InvalidInput
from headgate.base.lazy import needs_extra

CHARACTERS = 800
CHARACTERS_MAX = 20_000
#: The splitter's time grows with the square of a text's length, so a long text comes in sections.
SECTION_CHARACTERS = 50_000
#: What a caller may say about a document or a piece, and search by.
PieceMetadata: TypeAlias = Mapping[str, str | int | float | bool]

_HALF_PAIR = re.compile("[\ud800-\udfff]")


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text.

    Attributes:
        text: The part itself.
        start: The place of its first character in the text.
        end: The place after its last one.
        metadata: What else is known of it, such as the block it is from.
    """

    text: str
    start: int
    end: int
    metadata: PieceMetadata = {}


def split(text: str, *, characters: int = CHARACTERS) -> list[Piece]:
    """Return the pieces of a text in their order, each of at most so many characters.

    It is parted where the meaning allows it: between paragraphs rather than sentences, and between
    sentences rather than words. Only the blank space around a piece is left out, so a blank text
    has no pieces. A character that no encoding can hold, the lone half of a surrogate pair, becomes
    U+FFFD in the piece; places do not shift. Equal texts have equal pieces.

    Args:
        text: The text.
        characters: How long a piece may be.

    Raises:
        InvalidInput: The length is not valid, or the extra is not installed.
    """
    if not 1 <= characters <= CHARACTERS_MAX:
        raise InvalidInput("characters", f"must be from 1 to {CHARACTERS_MAX}, not {characters}")
    with needs_extra("vectors", "vectors"):
        from semantic_text_splitter import TextSplitter
    splitter = TextSplitter(characters)
    return [
        Piece(text=part, start=begin + start, end=begin + start + len(part))
        for begin, section in _sections(_HALF_PAIR.sub("\ufffd", text))
        for start, part in splitter.chunk_indices(section)
        if part.strip()
    ]


def piece_ids(document_id: str, texts: list[str]) -> list[str]:
    """Return the ids of a document's pieces: hashes of the document's id and each piece's text.

    A piece keeps its id when text is added before it, because its place does not count. Of pieces
    with the same text, the second, third and so on have ids of their own.
    """
    seen: dict[str, int] = {}
    ids = []
    for text in texts:
        repeat = seen[text] = seen.get(text, -1) + 1
        # As JSON, so that no two different triples are the same bytes.
        source = msgspec.json.encode((document_id, text, repeat))
        ids.append(blake2b(source, digest_size=16).hexdigest())
    return ids


def _sections(text: str) -> Iterator[tuple[int, str]]:
    """Parts of a text with their places, which together are all of it."""
    start = 0
    while len(text) - start > SECTION_CHARACTERS:
        end = _cut(text, start + SECTION_CHARACTERS // 2, start + SECTION_CHARACTERS)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def _cut(text: str, first: int, last: int) -> int:
    """Where to part a text between two places: best after a paragraph, at worst in a word."""
    for separator in ("\n\n", "\n", " "):
        if (place := text.rfind(separator, first, last)) >= 0:
            return place + len(separator)
    return last
