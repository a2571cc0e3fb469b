"""The notes index with an embedder of one's own, which only counts words.

Set up Roam as for the shipped one, and name this application to every command:

    export HEADGATE_APP=examples.own_embedder:app
    headgate worker
    headgate notes start --user ann --watch
"""

import math
import re
from collections.abc import Sequence
from hashlib import blake2b

import headgate
from headgate.connectors.vectors import Vector
from headgate.systems.notes_index import system
from headgate.systems.notes_index.settings import NotesIndexSettings
from headgate.systems.notes_index.syncs import indexes_of, notes_index


class WordCounts:
    """Counts the words of a text: near are texts that share words, whatever they mean.

    A real one would ask a model here, on this machine or behind an API.
    """

    #: The index remembers both, and refuses vectors of another embedder.
    name = "word-counts/1"
    dimensions = 512

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return a vector for each text, in their order."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        counts = [0.0] * self.dimensions
        for word in re.findall(r"\w+", text.casefold()):
            place = int.from_bytes(blake2b(word.encode(), digest_size=4).digest(), "big")
            counts[place % self.dimensions] += 1.0
        length = math.hypot(*counts)
        return [count / length for count in counts] if length else counts


settings = NotesIndexSettings()
sync = notes_index(settings.roam(), indexes_of(settings, WordCounts()), batch=settings.notes_batch)
app = headgate.App("sqlite:///notes.db", systems=[system.with_syncs([sync], settings)])
