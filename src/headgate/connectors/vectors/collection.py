"""One collection of a vector index: documents in pieces, found by meaning.

A document's pieces are replaced in one commit, under a lock that all processes on the machine
share. Whatever crashes, the document is there as it was before or as it is now, never as a mixture.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import from_json
from headgate.base.errors import InvalidInput, Transient
from headgate.connectors.vectors import tables
from headgate.connectors.vectors.embedder import Vector
from headgate.connectors.vectors.failures import translate_index_errors
from headgate.connectors.vectors.locking import LockTaken, with_lock
from headgate.connectors.vectors.tables import EmbedderName, VectorDocument

#: Documents are committed together up to so many pieces; one with more has a commit for itself.
PIECES_AT_ONCE = 2_000
DOCUMENTS_AT_ONCE = tables.NAMES_AT_ONCE
HITS_MAX = 1_000
LOCK_WAIT_S_MAX = 60.0
LOCK_POLL_S = 0.005
#: How long a version stays that others may still be reading.
KEEP = timedelta(minutes=10)
KEEP_MIN = timedelta(milliseconds=1)

_Result = TypeVar("_Result")


class IndexSize(msgspec.Struct, frozen=True):
    """How much a collection holds."""

    documents: int
    pieces: int


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A piece that was found.

    Attributes:
        document_id: The document that it is from.
        piece_id: Its own id, the same as long as its text is.
        text: Its text.
        start: Where it begins in the document's text.
        end: Where it ends.
        metadata: The document's and its own.
        score: How near it is, from 1.0 (the same direction) by 0.0 (nothing in common) to -1.0.
    """

    document_id: str
    piece_id: str
    text: str
    start: int
    end: int
    metadata: dict[str, Any]
    score: float


class VectorCollection:
    """A collection that is open. It holds nothing open, so it needs no closing."""

    def __init__(self, folder: Path, name: str, embedder: EmbedderName, clock: Clock) -> None:
        """Made by `VectorIndex.collection`."""
        self.name = name
        self._folder = folder
        self._embedder = embedder
        self._clock = clock

    async def upsert(self, documents: Sequence[VectorDocument]) -> int:
        """Make these pieces all that there is of each document; how many pieces there are now.

        Each document is replaced as a whole or not at all; of many, the first may have been
        replaced when a later one fails. The same call again changes nothing. A document without
        pieces is removed.

        Raises:
            InvalidInput: A document is not valid; nothing was written.
            Conflict: The collection was built with another embedder by now.
            Transient: The disk is full, or another process writes for too long.
        """
        _check(documents, self._embedder.dimensions)
        for batch in _batches(documents):
            await self._replace(batch)
        return sum(len(document.pieces) for document in documents)

    async def delete_documents(self, document_ids: Collection[str]) -> int:
        """Delete documents; how many pieces that were. Those that are not there are no error."""
        ids = _checked_ids(document_ids)
        if not ids:
            return 0
        return await self._write(lambda: tables.delete(self._table(), ids))

    async def document_ids(self) -> set[str]:
        """Return the ids of all documents."""
        return await self._read(lambda: tables.ids_in(self._table()))

    async def has(self, document_ids: Collection[str]) -> set[str]:
        """Return those of the ids whose documents are there."""
        ids = _checked_ids(document_ids)
        return await self._read(lambda: tables.ids_in(self._table(), ids)) if ids else set()

    async def document_metadata(self, document_ids: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return the metadata of those of the documents that are there, by id.

        That of a document's first piece, which is its own and the piece's.
        """
        ids = _checked_ids(document_ids)
        found = await self._read(lambda: tables.metadata_of(self._table(), ids)) if ids else {}
        return {document_id: _metadata(encoded) for document_id, encoded in found.items()}

    async def texts(self, document_ids: Collection[str]) -> list[tuple[str, str]]:
        """Return the texts of all pieces of these documents, each with its document's id."""
        ids = _checked_ids(document_ids)
        return await self._read(lambda: tables.texts_of(self._table(), ids)) if ids else []

    async def count(self) -> int:
        """Return how many pieces there are."""
        return int(await self._read(lambda: self._table().count_rows()))

    async def search(
        self,
        vector: Vector,
        *,
        limit: int = 10,
        documents: Collection[str] | None = None,
        where: Mapping[str, object] | None = None,
    ) -> list[SearchHit]:
        """Return the pieces that are nearest to a vector, the nearest first.

        Args:
            vector: What to look for, from the embedder that the collection was built with.
            limit: How many pieces at most.
            documents: Only in these documents.
            where: Only pieces with all of this in their metadata; a list is any of its values.
        """
        if not 1 <= limit <= HITS_MAX:
            raise InvalidInput("limit", f"must be from 1 to {HITS_MAX}, not {limit}")
        _check_vector("vector", vector, self._embedder.dimensions)
        wanted = {key: _any_of(value) for key, value in (where or {}).items()}
        _check_metadata("where", ((key, each) for key in wanted for each in wanted[key]))
        ids = None if documents is None else _checked_ids(documents)
        if ids is not None and len(ids) > tables.NAMES_AT_ONCE:
            raise InvalidInput(
                "documents", f"at most {tables.NAMES_AT_ONCE} at once, not {len(ids)}: use `where`"
            )
        found = await self._read(lambda: tables.nearest(self._table(), vector, limit, ids, wanted))
        return [_hit(row) for row in found]

    async def maintain(self, *, keep: timedelta = KEEP) -> bool:
        """Tidy up, if enough was written since the last time; whether it was.

        Writes leave small files and old versions. Call this from time to time, such as after every
        batch. One call is one step: it makes one file of many small ones, and removes versions that
        are older than `keep`. Others can read meanwhile, and wait to write.
        """
        if keep < KEEP_MIN:
            raise InvalidInput("keep", "must be at least a millisecond: others may be reading")
        return await self._write(lambda: tables.tidy(self._folder, self._table(), keep))

    async def _replace(self, batch: list[VectorDocument]) -> None:
        ids = [document.id for document in batch]
        # Before the lock: what takes long does not keep others waiting.
        rows = await self._read(lambda: tables.rows_of(batch, self._embedder))
        await self._write(lambda: tables.replace(self._table(), rows, ids))

    def _table(self) -> Any:
        return tables.open_table(self._folder, self.name, self._embedder)

    async def _read(self, work: Callable[[], _Result]) -> _Result:
        with translate_index_errors(self._folder):
            return await asyncio.to_thread(work)

    async def _write(self, work: Callable[[], _Result]) -> _Result:
        return await write(self._folder, self.name, self._clock, work)


async def write(folder: Path, name: str, clock: Clock, work: Callable[[], _Result]) -> _Result:
    """Do work in a thread that changes a collection, while nobody else does."""
    lock = folder / f"{name}.lock"
    give_up = clock.monotonic() + LOCK_WAIT_S_MAX
    with translate_index_errors(folder):
        while True:
            try:
                return await _to_the_end(lambda: with_lock(lock, work))
            except LockTaken:
                if clock.monotonic() >= give_up:
                    raise Transient(
                        f"others have been writing to {name!r} in {folder} for more than "
                        f"{LOCK_WAIT_S_MAX:.0f} s: look whether a process hangs"
                    ) from None
            await clock.sleep(LOCK_POLL_S)


async def _to_the_end(work: Callable[[], _Result]) -> _Result:
    """Work in a thread; whoever cancels it waits until it has ended, as a thread cannot be stopped.

    Otherwise it might write after what the caller did next, and replace that.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        # Looked at, so that nobody misses it: the caller no longer wants to know.
        working.exception()
        raise


def _any_of(wanted: object) -> list[object]:
    return list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]


def _hit(row: Mapping[str, Any]) -> SearchHit:
    return SearchHit(
        document_id=row["document_id"],
        piece_id=row["id"],
        text=row["text"],
        start=row["start"],
        end=row["end"],
        metadata=_metadata(row["metadata"]),
        score=1.0 - row["_distance"],
    )


def _metadata(encoded: str) -> dict[str, Any]:
    metadata = from_json(encoded)
    assert isinstance(metadata, dict)
    return metadata


def _batches(documents: Sequence[VectorDocument]) -> Iterator[list[VectorDocument]]:
    """Whole documents, as many as go into one commit."""
    batch: list[VectorDocument] = []
    pieces = 0
    for document in documents:
        full = pieces + len(document.pieces) > PIECES_AT_ONCE or len(batch) == DOCUMENTS_AT_ONCE
        if batch and full:
            yield batch
            batch, pieces = [], 0
        batch.append(document)
        pieces += len(document.pieces)
    if batch:
        yield batch


def _check(documents: Sequence[VectorDocument], dimensions: int) -> None:
    ids = _checked_ids([document.id for document in documents])
    if len(ids) != len(documents):
        raise InvalidInput(
            "documents", "an id is there twice: a document has one version at a time"
        )
    for document in documents:
        field = f"documents[{document.id!r}]"
        _check_metadata(f"{field}.metadata", document.metadata.items())
        if len(document.vectors) != len(document.pieces):
            raise InvalidInput(
                f"{field}.vectors",
                f"{len(document.vectors)} for {len(document.pieces)} pieces: give one for each",
            )
        for place, (piece, vector) in enumerate(
            zip(document.pieces, document.vectors, strict=True)
        ):
            _check_text(f"{field}.pieces[{place}].text", piece.text)
            _check_metadata(f"{field}.pieces[{place}].metadata", piece.metadata.items())
            _check_vector(f"{field}.vectors[{place}]", vector, dimensions)


def _check_vector(field: str, vector: Vector, dimensions: int) -> None:
    if len(vector) != dimensions:
        raise InvalidInput(field, f"has {len(vector)} numbers, and the collection has {dimensions}")
    if not math.isfinite(math.fsum(vector)):
        raise InvalidInput(field, "has a number that is not finite")


def _check_metadata(field: str, pairs: Iterable[tuple[str, object]]) -> None:
    for key, value in pairs:
        _check_text(field, key)
        if not isinstance(value, str | int | float):
            raise InvalidInput(f"{field}.{key}", "must be text, a number, true or false")
        if isinstance(value, str):
            _check_text(f"{field}.{key}", value)


def _checked_ids(document_ids: Collection[str]) -> list[str]:
    if isinstance(document_ids, str):
        raise InvalidInput("document_ids", "is one id: give a list")
    for document_id in document_ids:
        _check_text("document_ids", document_id)
        if not document_id:
            raise InvalidInput("document_ids", "an id is empty")
    return list(dict.fromkeys(document_ids))


def _check_text(field: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            field, f"{text[:40]!r} has the lone half of a surrogate pair, which cannot be stored"
        ) from None
