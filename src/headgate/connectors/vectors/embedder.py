"""Turns texts into vectors: the protocol, and an embedder whose model comes with its package."""

import asyncio
import logging
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from headgate.base.errors import InvalidInput, Terminal
from headgate.base.lazy import needs_extra

#: One number for each dimension.
Vector: TypeAlias = Sequence[float]

TEXT_CHARACTERS_MAX = 100_000
#: So many texts at a time, so that a cancelled caller does not leave a thread at work for long.
TEXTS_AT_ONCE = 256


class Embedder(Protocol):
    """Gives texts of similar meaning similar vectors."""

    @property
    def name(self) -> str:
        """Which model this is: vectors of embedders with different names are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return a vector for each text, in their order. Equal texts have equal vectors."""
        ...


class WordLlamaEmbedder:
    """WordLlama's static vectors: small, quick, and without any download.

    The model is part of the package `wordllama`. It is read at the first use, once, in a thread.
    """

    def __init__(self) -> None:
        """Read nothing yet."""
        self._model: Any = None
        self._loading = threading.Lock()

    @property
    def name(self) -> str:
        """The name of its weights."""
        return "wordllama/l2_supercat"

    @property
    def dimensions(self) -> int:
        """256: the only size that comes with the package."""
        return 256

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector for each text; that of an empty text is all zeros, and is never found.

        Raises:
            InvalidInput: A text is too long, or the extra is not installed.
            Terminal: The installed package lacks its model.
        """
        for place, text in enumerate(texts):
            if len(text) > TEXT_CHARACTERS_MAX:
                raise InvalidInput(
                    f"texts[{place}]",
                    f"has {len(text)} characters, more than {TEXT_CHARACTERS_MAX}: split it first",
                )
        vectors: list[Vector] = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            part = list(texts[start : start + TEXTS_AT_ONCE])
            vectors += await asyncio.to_thread(self._embed, part)
        return vectors

    def _embed(self, texts: list[str]) -> list[Vector]:
        encodable = [text.encode("utf-8", "replace").decode() for text in texts]
        # One at a time: a batch is padded to its longest text, which costs more than it saves, and
        # memory without a limit.
        found = self._loaded().embed(encodable, batch_size=1)
        return [array("f", row.tobytes()) for row in found]

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                self._model = _load()
            return self._model


def _load() -> Any:
    # wordllama calls logging.basicConfig when it is imported, which does nothing where the root
    # logger has a handler: how a program logs is not a library's to decide.
    placeholder = logging.NullHandler()
    logging.getLogger().addHandler(placeholder)
    try:
        with needs_extra("vectors", "vectors"):
            import wordllama  # type: ignore[import-untyped]  # it has no types
    finally:
        logging.getLogger().removeHandler(placeholder)
    # With its own folder as the cache it finds the tokenizer there; without, it would download one.
    folder = Path(wordllama.__file__).parent
    try:
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    except FileNotFoundError as error:
        raise Terminal(f"wordllama is installed without its model: {error}") from error
