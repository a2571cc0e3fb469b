"""The index of one graph: which pages it has, replacing them, and searching them by meaning.

Each connection has a collection of its own in the vector index, so that nobody finds another's
notes. A page is a document there, and its pieces know which blocks they are from.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from hashlib import sha256
from operator import methodcaller
from pathlib import Path
from typing import TypeVar

import msgspec

from headgate import NotFound
from headgate.connectors.vectors import (
    Embedder,
    IndexSize,
    Piece,
    VectorCollection,
    VectorDocument,
    VectorIndex,
    split,
)
from headgate.systems.notes_index.page_record import PageRecord

T = TypeVar("T")

_ID_DIGITS = 20
#: The most pages whose texts are read at once.
_PAGES_AT_ONCE = 100


class GraphIndexes:
    """The indexes of all users' graphs, in one folder."""

    def __init__(self, folder: Path, embedder: Embedder, *, piece_characters: int) -> None:
        """Keep them in `folder`, which is made when the first is used."""
        self.embedder = embedder
        self.piece_characters = piece_characters
        self._folder = folder
        self._index: VectorIndex | None = None
        #: Those that were opened: a look whether they exist is not needed for every batch.
        self._opened: dict[str, VectorCollection] = {}

    def of(self, user_id: str, connection_id: str) -> "GraphIndex":
        """Return the index of a user's connection."""
        return GraphIndex(self, f"{_user_prefix(user_id)}{_digest(connection_id)}")

    async def drop_user(self, user_id: str) -> int:
        """Delete all indexes of a user; returns how many there were."""
        names = await self._names_of(user_id)
        for name in names:
            await self.drop(name)
        return len(names)

    async def texts_of_user(self, user_id: str) -> AsyncIterator[tuple[str, str]]:
        """Return the pieces of all indexes of a user, each with the uid of its page."""
        for name in await self._names_of(user_id):
            uids = sorted(await self.use(name, lambda collection: collection.document_ids()))
            for begin in range(0, len(uids), _PAGES_AT_ONCE):
                some = uids[begin : begin + _PAGES_AT_ONCE]
                for text in await self.use(name, methodcaller("texts", some)):
                    yield text

    async def _names_of(self, user_id: str) -> list[str]:
        prefix = _user_prefix(user_id)
        return [each for each in await (await self.open()).collections() if each.startswith(prefix)]

    async def drop(self, name: str) -> None:
        """Delete an index."""
        self._opened.pop(name, None)
        await (await self.open()).drop(name)

    async def use(self, name: str, work: Callable[[VectorCollection], Awaitable[T]]) -> T:
        """Do something with a collection, which is made where it does not exist."""
        if (opened := self._opened.get(name)) is not None:
            try:
                return await work(opened)
            except NotFound:
                # Another process has deleted it.
                del self._opened[name]
        opened = await (await self.open()).collection(name, self.embedder)
        self._opened[name] = opened
        return await work(opened)

    async def open(self) -> VectorIndex:
        """Return the vector index; InvalidInput if the extra is missing."""
        if self._index is None:
            self._index = await VectorIndex.open(self._folder)
        return self._index


class GraphIndex:
    """The index of one graph."""

    def __init__(self, indexes: GraphIndexes, name: str) -> None:
        """Made by `GraphIndexes.of`."""
        self.indexes = indexes
        self.name = name

    async def exists(self) -> bool:
        """Whether anything was ever indexed."""
        return self.name in await (await self.indexes.open()).collections()

    async def page_uids(self) -> set[str]:
        """Return the uids of all pages that are indexed."""
        return await self.use(lambda collection: collection.document_ids())

    async def hashes(self, uids: Collection[str]) -> dict[str, str]:
        """Return the hashes of the texts that are indexed, by the uids of their pages."""
        found = await self.use(lambda collection: collection.document_metadata(uids))
        return {uid: str(metadata["hash"]) for uid, metadata in found.items()}

    async def replace(self, pages: Sequence[PageRecord]) -> None:
        """Split and embed the pages, and make that all that there is of each."""
        if not pages:
            return
        pieces = await asyncio.to_thread(self._split, pages)
        texts = [piece.text for each in pieces for piece in each]
        vectors = iter(await self.indexes.embedder.embed(texts))
        documents = [
            VectorDocument(
                id=page.uid,
                pieces=of_page,
                vectors=[next(vectors) for _ in of_page],
                metadata={"title": page.title, "hash": page.state.hash},
            )
            for page, of_page in zip(pages, pieces, strict=True)
        ]
        await self.use(lambda collection: collection.upsert(documents))
        await self.use(lambda collection: collection.maintain())

    async def delete(self, uids: Collection[str]) -> None:
        """Delete pages; those that are not there are no error."""
        if uids:
            await self.use(lambda collection: collection.delete_documents(uids))

    async def size(self) -> IndexSize:
        """Return how much is indexed: what a clear deletes."""
        try:
            return await (await self.indexes.open()).size(self.name)
        except NotFound:
            return IndexSize(documents=0, pieces=0)

    async def clear(self) -> None:
        """Delete all pages."""
        await self.delete(await self.page_uids())

    async def drop(self) -> None:
        """Delete the index itself; the next page makes a new one, for the present embedder."""
        if await self.exists():
            await self.indexes.drop(self.name)

    async def use(self, work: Callable[[VectorCollection], Awaitable[T]]) -> T:
        """Do something with the collection, which is made where it does not exist."""
        return await self.indexes.use(self.name, work)

    def _split(self, pages: Sequence[PageRecord]) -> list[list[Piece]]:
        return [split_page(page, self.indexes.piece_characters) for page in pages]


def split_page(page: PageRecord, characters: int) -> list[Piece]:
    """Return the pieces of a page, each with the blocks that it is from."""
    return [
        msgspec.structs.replace(piece, metadata={"blocks": encode_blocks(page, piece)})
        for piece in split(page.text.text, characters=characters)
    ]


class BlockPart(msgspec.Struct, frozen=True):
    """The part of a piece's text that is from one block."""

    uid: str
    start: int
    end: int


def encode_blocks(page: PageRecord, piece: Piece) -> str:
    """Return where the blocks of a page are in a piece: `uid:start:end`, with spaces between."""
    parts = []
    for span in page.text.spans_between(piece.start, piece.end):
        start, end = max(span.start, piece.start), min(span.end, piece.end)
        parts.append(f"{span.uid}:{start - piece.start}:{end - piece.start}")
    return " ".join(parts)


def decode_blocks(encoded: str) -> list[BlockPart]:
    """Read what `encode_blocks` wrote."""
    fields = (each.rsplit(":", 2) for each in encoded.split())
    return [BlockPart(uid, int(start), int(end)) for uid, start, end in fields]


def _user_prefix(user_id: str) -> str:
    return f"{_digest(user_id)}-"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_ID_DIGITS]
