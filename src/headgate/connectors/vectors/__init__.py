"""An index of texts by their meaning, in a folder: split, embed, store, search.

Nothing here imports the packages of the extra `vectors` before they are used.
"""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.connectors.vectors.collection import IndexSize, SearchHit, VectorCollection
    from headgate.connectors.vectors.embedder import Embedder, Vector, WordLlamaEmbedder
    from headgate.connectors.vectors.index import VectorIndex
    from headgate.connectors.vectors.splitting import (
        CHARACTERS,
        CHARACTERS_MAX,
        Piece,
        PieceMetadata,
        piece_ids,
        split,
    )
    from headgate.connectors.vectors.tables import VectorDocument
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "CHARACTERS",
    "CHARACTERS_MAX",
    "Embedder",
    "IndexSize",
    "Piece",
    "PieceMetadata",
    "SearchHit",
    "Vector",
    "VectorCollection",
    "VectorDocument",
    "VectorIndex",
    "WordLlamaEmbedder",
    "piece_ids",
    "split",
]
