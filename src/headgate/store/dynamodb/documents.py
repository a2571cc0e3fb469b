"""Documents of items, in parts that fit into items of DynamoDB, beside the row of their item.

The row names the document whose parts count. A document of one part is written in the transaction
of its row. Of a larger one the parts are written before, under a name of their own: a crash leaves
parts that no row names, never a document that is torn.
"""

from collections.abc import Sequence
from datetime import datetime

from headgate.base.encoding import from_json, to_json
from headgate.model.item import Item as ItemRow
from headgate.ports.items import StoredDocument
from headgate.store.dynamodb import keys
from headgate.store.dynamodb.attributes import Item, Key
from headgate.store.dynamodb.keys import time_text
from headgate.store.packing import ENCODING, PackedDocument

#: The bytes of a part: an item of DynamoDB has 400 KB, with its keys.
PART_BYTES = 380_000
#: The most items of one partition that are read for an item: its row and all parts.
PARTS_MAX = 1000
#: The attribute of a row that parts of older documents may be left, until the next success.
LEFT = "doc_left"


def document_id(row: ItemRow, packed: PackedDocument) -> str:
    """The name of a document: no two claims write under the same."""
    return f"{names_of(row.token)}{packed.hash}"


def names_of(token: int) -> str:
    """How the names of all documents of one claim begin."""
    return f"{token}-"


def split(item_id: str, doc_id: str, body: bytes) -> list[Item]:
    """The parts of a document; there is one at least."""
    parts = [body[begin : begin + PART_BYTES] for begin in range(0, len(body), PART_BYTES)]
    named = [
        (keys.document_part(item_id, doc_id, number), part) for number, part in enumerate(parts)
    ]
    return [{"pk": pk, "sk": sk, "body": part} for (pk, sk), part in named]


def part_keys(row: Item) -> list[Key]:
    """The keys of the parts that the row of an item names."""
    if "doc_id" not in row:
        return []
    return [
        keys.document_part(row["id"], row["doc_id"], number) for number in range(row["doc_parts"])
    ]


def describe(row: ItemRow, now: datetime, packed: PackedDocument, parts: Sequence[Item]) -> Item:
    """The attributes of the row that name the document, and what is known of it."""
    return {
        "doc_id": document_id(row, packed),
        "doc_parts": len(parts),
        "doc_hash": packed.hash,
        "doc_type": packed.document.media_type,
        "doc_attributes": to_json(packed.document.attributes),
        "doc_at": time_text(now),
    }


def assemble(row: Item, found: Sequence[Item]) -> StoredDocument | None:
    """The document that the row names; None if there is none, or a part was not found."""
    bodies = {(item["pk"], item["sk"]): item["body"] for item in found if "body" in item}
    wanted = part_keys(row)
    if not wanted or any(key not in bodies for key in wanted):
        return None
    attributes = from_json(row["doc_attributes"])
    assert isinstance(attributes, dict)
    return StoredDocument(
        row["id"],
        row["doc_type"],
        attributes,
        datetime.fromisoformat(row["doc_at"]),
        row["doc_hash"],
        ENCODING,
        b"".join(bodies[key] for key in wanted),
    )


def seconds_until(time: str, now: datetime) -> float:
    """Seconds until a time, at least 0."""
    return max(0.0, (datetime.fromisoformat(time) - now).total_seconds())
