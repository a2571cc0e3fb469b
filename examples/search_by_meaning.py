"""Keep a few notes searchable by their meaning: split, embed, store, search.

Run it with a folder, which becomes the index: `python -m examples.search_by_meaning notes-index`.
"""

import asyncio
import sys
from pathlib import Path

from headgate.connectors.vectors import VectorDocument, VectorIndex, WordLlamaEmbedder, split

NOTES = {
    "bread": "Knead the dough, let it rise for an hour, and bake the bread.",
    "rates": "The central bank raised interest rates to fight inflation.",
    "train": "The night train from Vienna to Venice was two hours late.",
}


async def main(folder: Path) -> None:
    """Index the notes, and ask for one."""
    embedder = WordLlamaEmbedder()
    index = await VectorIndex.open(folder)
    notes = await index.collection("notes", embedder)

    for name, text in NOTES.items():
        pieces = split(text)
        vectors = await embedder.embed([piece.text for piece in pieces])
        stored = VectorDocument(id=name, pieces=pieces, vectors=vectors, metadata={"user": "ann"})
        await notes.upsert([stored])
    await notes.maintain()

    [question] = await embedder.embed(["monetary policy and prices"])
    for hit in await notes.search(question, limit=2, where={"user": "ann"}):
        print(f"{hit.score:.2f} {hit.document_id} [{hit.start}:{hit.end}] {hit.text}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
