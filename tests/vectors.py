"""What tests of the vector index share: an embedder without a model, and documents made with it."""

from collections.abc import Sequence
from pathlib import Path

from headgate.connectors.vectors import (
    Piece,
    PieceMetadata,
    VectorCollection,
    VectorDocument,
    VectorIndex,
)


class LetterEmbedder:
    """Counts letters: texts of the same letters have the same vector."""

    def __init__(self, name: str = "letters", dimensions: int = 8) -> None:
        self.name = name
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text."""
        return [letters(text, self.dimensions) for text in texts]


def letters(text: str, dimensions: int = 8) -> list[float]:
    """How many letters of a text fall into each dimension."""
    vector = [0.0] * dimensions
    for letter in text:
        vector[ord(letter) % dimensions] += 1.0
    return vector


def document(document_id: str, *texts: str, **metadata: str | int | float | bool) -> VectorDocument:
    """A document of these pieces, one after another."""
    return labelled(document_id, metadata, *texts)


def labelled(document_id: str, metadata: PieceMetadata, *texts: str) -> VectorDocument:
    """The same, with any metadata."""
    pieces, start = [], 0
    for text in texts:
        pieces.append(Piece(text=text, start=start, end=start + len(text)))
        start += len(text)
    vectors = [letters(text) for text in texts]
    return VectorDocument(id=document_id, pieces=pieces, vectors=vectors, metadata=metadata)


async def opened(folder: Path, name: str = "notes") -> VectorCollection:
    """A collection of an index in the folder."""
    index = await VectorIndex.open(folder)
    return await index.collection(name, LetterEmbedder())


async def texts_of(collection: VectorCollection, document_id: str) -> list[str]:
    """All texts of a document's pieces, sorted."""
    found = await collection.search([1.0] * 8, limit=1000, documents=[document_id])
    return sorted(hit.text for hit in found)
