"""A collection as a table of LanceDB: its columns, rows, conditions and commits.

All of this blocks, so it runs in threads. Every call opens the table anew, which takes a few
milliseconds: what another process has committed, dropped or built again is then always seen.
"""

import os
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from headgate.base.encoding import to_json
from headgate.base.errors import Conflict, InvalidInput
from headgate.base.lazy import needs_extra
from headgate.connectors.vectors.embedder import Vector
from headgate.connectors.vectors.splitting import Piece, PieceMetadata, piece_ids

FORMAT = "1"
#: More names than this are asked for in several conditions.
NAMES_AT_ONCE = 500
#: A search reads all files: from so many small ones on, they are made into one.
FILES_MAX = 32
#: Old versions take room: from so many on, they are removed.
VERSIONS_MAX = 100

_ROW = ["id", "document_id", "start", "end", "text", "metadata"]


class EmbedderName(msgspec.Struct, frozen=True):
    """What the vectors of a collection were made with."""

    name: str
    dimensions: int

    def __str__(self) -> str:
        return f"{self.name} ({self.dimensions} dimensions)"


class VectorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it is stored: its pieces, and a vector for each.

    Attributes:
        id: Its id, which stays the same when its text changes.
        pieces: Its pieces, in their order.
        vectors: The vector of each piece.
        metadata: What can be searched by, for all of its pieces; a piece's own goes before it.
    """

    id: str
    pieces: Sequence[Piece]
    vectors: Sequence[Vector]
    metadata: PieceMetadata = {}


def folder_of(folder: Path, name: str) -> Path:
    """Return where LanceDB keeps a table."""
    return folder / f"{name}.lance"


def create(folder: Path, name: str, embedder: EmbedderName) -> None:
    """Make an empty table that remembers its embedder; what a crashed attempt left is replaced."""
    _connect(folder).create_table(name, schema=_schema(embedder))


def open_table(folder: Path, name: str, embedder: EmbedderName | None = None) -> Any:
    """Return a table as it is now; Conflict, if it was built with another embedder."""
    table = _connect(folder).open_table(name)
    if embedder is not None and (built := embedder_of(table)) != embedder:
        raise Conflict(
            f"the collection {name!r} was built with the embedder {built}, and this one is "
            f"{embedder}: use the same again, take another name, or drop the collection and index "
            "everything again"
        )
    return table


def embedder_of(table: Any) -> EmbedderName:
    """Return what a table's vectors were made with; InvalidInput, if it is not one of ours."""
    noted = table.schema.metadata or {}
    if noted.get(b"headgate.format") != FORMAT.encode():
        raise InvalidInput(
            "collection", f"{table.name!r} was not made by this version of Headgate: take another"
        )
    name, dimensions = noted[b"headgate.embedder"], noted[b"headgate.dimensions"]
    return EmbedderName(name.decode(), int(dimensions))


def rows_of(documents: Iterable[VectorDocument], embedder: EmbedderName) -> Any:
    """Return the rows of documents that have been checked."""
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

    columns: dict[str, list[Any]] = {name: [] for name in [*_ROW, "tags"]}
    numbers = array("f")
    for document in documents:
        columns["id"] += piece_ids(document.id, [piece.text for piece in document.pieces])
        for piece, vector in zip(document.pieces, document.vectors, strict=True):
            metadata = {**document.metadata, **piece.metadata}
            columns["document_id"].append(document.id)
            columns["start"].append(piece.start)
            columns["end"].append(piece.end)
            columns["text"].append(piece.text)
            columns["metadata"].append(to_json(metadata))
            columns["tags"].append([_tag(*each) for each in metadata.items()])
            numbers.extend(vector)
    values = pa.Array.from_buffers(pa.float32(), len(numbers), [None, pa.py_buffer(numbers)])
    vectors = pa.FixedSizeListArray.from_arrays(values, embedder.dimensions)
    return pa.table({**columns, "vector": vectors}, schema=_schema(embedder))


def replace(table: Any, rows: Any, document_ids: Collection[str]) -> None:
    """Make these rows all that there is of the documents, in one commit. Only under the lock."""
    condition = _one_of("document_id", document_ids)
    if not len(rows):
        table.delete(condition)
        return
    if not table.count_rows(condition):
        # All are new, which is much cheaper: a merge reads the whole table.
        table.add(rows)
        return
    (
        table.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete(condition)
        .execute(rows)
    )


def delete(table: Any, document_ids: Sequence[str]) -> int:
    """Delete the rows of documents; how many there were."""
    return sum(
        table.delete(_one_of("document_id", names)).num_deleted_rows
        for names in _at_once(document_ids)
    )


def ids_in(table: Any, document_ids: Sequence[str] | None = None) -> set[str]:
    """Return the ids of all documents, or of those that are there."""
    if document_ids is None:
        return _distinct(table.search())
    found: set[str] = set()
    for names in _at_once(document_ids):
        found |= _distinct(table.search().where(_one_of("document_id", names)))
    return found


def metadata_of(table: Any, document_ids: Sequence[str]) -> dict[str, str]:
    """Return the metadata of the first piece of each document that is there, as it is stored."""
    first: dict[str, tuple[int, str]] = {}
    for names in _at_once(document_ids):
        query = table.search().where(_one_of("document_id", names))
        for batch in query.select(["document_id", "start", "metadata"]).to_batches():
            for row in batch.to_pylist():
                piece = (row["start"], row["metadata"])
                known = first.setdefault(row["document_id"], piece)
                if piece[0] < known[0]:
                    first[row["document_id"]] = piece
    return {document_id: metadata for document_id, (_, metadata) in first.items()}


def texts_of(table: Any, document_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return the texts of all pieces of these documents, in their order in each document."""
    found: list[tuple[str, int, str]] = []
    for names in _at_once(document_ids):
        query = table.search().where(_one_of("document_id", names))
        for batch in query.select(["document_id", "start", "text"]).to_batches():
            found += [(row["document_id"], row["start"], row["text"]) for row in batch.to_pylist()]
    return [(document_id, text) for document_id, _, text in sorted(found)]


def nearest(
    table: Any,
    vector: Vector,
    limit: int,
    document_ids: Collection[str] | None,
    where: Mapping[str, Sequence[object]],
) -> list[dict[str, Any]]:
    """Return the rows whose vectors are nearest by their angle, the nearest first."""
    query = table.search(list(vector), vector_column_name="vector").distance_type("cosine")
    conditions = [_has_tag(*each) for each in where.items()]
    if document_ids is not None:
        conditions.append(_one_of("document_id", document_ids))
    if conditions:
        # First, so that as many are found as are asked for.
        query = query.where(" AND ".join(conditions), prefilter=True)
    rows: list[dict[str, Any]] = query.select([*_ROW, "_distance"]).limit(limit).to_list()
    return rows


def tidy(folder: Path, table: Any, keep: timedelta) -> bool:
    """Make one file of many small ones and remove what is no longer used; whether it was time.

    Only under the lock: then nobody else is writing, and files outside of any version are leftovers
    of processes that have crashed.
    """
    files = table.stats()["fragment_stats"]["num_small_fragments"]
    if files <= FILES_MAX and _old_versions(folder_of(folder, table.name), keep) <= VERSIONS_MAX:
        return False
    table.optimize(cleanup_older_than=keep, delete_unverified=True)
    return True


def _old_versions(folder: Path, keep: timedelta) -> int:
    """How many versions may be removed, by how much older they are than the newest."""
    times = [each.stat().st_mtime for each in os.scandir(folder / "_versions")]
    return sum(1 for each in times if each < max(times) - keep.total_seconds())


def driver() -> Any:
    """Return LanceDB; InvalidInput, if the extra is not installed."""
    with needs_extra("vectors", "vectors"):
        # It starts a thread, warns in forks of the process, and takes a second to load.
        import lancedb
    return lancedb


def _connect(folder: Path) -> Any:
    return driver().connect(folder, read_consistency_interval=timedelta(0))


def _schema(embedder: EmbedderName) -> Any:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("document_id", pa.string(), nullable=False),
            pa.field("start", pa.int64(), nullable=False),
            pa.field("end", pa.int64(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("metadata", pa.string(), nullable=False),
            pa.field("tags", pa.list_(pa.string()), nullable=False),
            pa.field("vector", pa.list_(pa.float32(), embedder.dimensions), nullable=False),
        ],
        metadata={
            "headgate.format": FORMAT,
            "headgate.embedder": embedder.name,
            "headgate.dimensions": str(embedder.dimensions),
        },
    )


def _distinct(query: Any) -> set[str]:
    found: set[str] = set()
    for batch in query.select(["document_id"]).to_batches():
        found.update(batch.column("document_id").unique().to_pylist())
    return found


def _at_once(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[at : at + NAMES_AT_ONCE] for at in range(0, len(names), NAMES_AT_ONCE))


def _one_of(column: str, names: Collection[str]) -> str:
    return f"{column} IN ({', '.join(map(_quoted, names))})" if names else "false"


def _has_tag(key: str, values: Sequence[object]) -> str:
    each = [f"array_has(tags, {_quoted(_tag(key, value))})" for value in values]
    return f"({' OR '.join(each)})" if each else "false"


def _tag(key: str, value: object) -> str:
    return f"{key}={to_json(value)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
