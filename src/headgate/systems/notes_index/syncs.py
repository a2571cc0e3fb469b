"""The sync from a user's Roam graph to the vector index."""

from collections.abc import Sequence

from headgate import Lane, Mode, Sync
from headgate.connectors.roam import RoamArguments
from headgate.connectors.vectors import Embedder, WordLlamaEmbedder
from headgate.systems.notes_index.destination import PageIndex
from headgate.systems.notes_index.graph_index import GraphIndexes
from headgate.systems.notes_index.settings import NotesIndexSettings
from headgate.systems.notes_index.source import RoamNotes

NAME = "notes-index"
#: A batch of long pages, with an embedder that is somebody's API, takes minutes.
CHUNK_S_MAX = 900.0


def notes_index(roam: RoamArguments, indexes: GraphIndexes, *, batch: int) -> Sync:
    """Return the sync that keeps these indexes up to date with users' graphs."""
    return Sync(
        name=NAME,
        source=RoamNotes(indexes, batch=batch, **roam),
        destination=PageIndex(indexes),
        modes=(Mode.FULL, Mode.SINCE, Mode.LIMIT),
        lane=Lane.HOT,
        chunk_s_max=CHUNK_S_MAX,
    )


def indexes_of(settings: NotesIndexSettings, embedder: Embedder | None = None) -> GraphIndexes:
    """Return the indexes for these settings; another embedder replaces the one that is shipped."""
    return GraphIndexes(
        settings.notes_folder,
        embedder or WordLlamaEmbedder(),
        piece_characters=settings.notes_piece_characters,
    )


def syncs(settings: NotesIndexSettings, public_url: str) -> Sequence[Sync]:
    """Return the sync for these settings."""
    return [notes_index(settings.roam(), indexes_of(settings), batch=settings.notes_batch)]
