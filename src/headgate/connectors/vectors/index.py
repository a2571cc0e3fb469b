"""A vector index: a folder with collections, which several processes can use at once."""

import asyncio
import os
import re
import shutil
import threading
from pathlib import Path

import msgspec

from headgate.base.clock import Clock, SystemClock
from headgate.base.errors import Conflict, InvalidInput, NotFound
from headgate.connectors.vectors import tables
from headgate.connectors.vectors.collection import IndexSize, VectorCollection, write
from headgate.connectors.vectors.embedder import Embedder
from headgate.connectors.vectors.failures import translate_index_errors
from headgate.connectors.vectors.tables import EmbedderName

#: A folder with this file is an index.
MARKER = "headgate-vectors.json"
DIMENSIONS_MAX = 16_384

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class _Marker(msgspec.Struct):
    format: int


class VectorIndex:
    """Collections of documents, each built with one embedder, in a folder on this machine."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Made by `VectorIndex.open`."""
        self._folder = folder
        self._clock = clock

    @classmethod
    async def open(cls, folder: Path, *, clock: Clock | None = None) -> "VectorIndex":
        """Return the index in a folder, which is made where it does not exist.

        Raises:
            InvalidInput: The folder holds something else, or the extra is not installed.
            Terminal: It cannot be made.
        """
        with translate_index_errors(folder):
            return cls(await asyncio.to_thread(_prepare, folder), clock or SystemClock())

    async def collections(self) -> list[str]:
        """Return the names of the collections."""
        with translate_index_errors(self._folder):
            return await asyncio.to_thread(self._names)

    async def collection(self, name: str, embedder: Embedder) -> VectorCollection:
        """Return a collection, which is made where it does not exist.

        Raises:
            InvalidInput: The name is not valid.
            Conflict: It was built with another embedder.
        """
        _check_name(name)
        built_with = EmbedderName(embedder.name, embedder.dimensions)
        if not 1 <= embedder.dimensions <= DIMENSIONS_MAX:
            raise InvalidInput("embedder", f"its dimensions must be from 1 to {DIMENSIONS_MAX}")
        if name not in await self.collections():
            await write(self._folder, name, self._clock, lambda: self._create(name, built_with))
        with translate_index_errors(self._folder):
            await asyncio.to_thread(tables.open_table, self._folder, name, built_with)
        return VectorCollection(self._folder, name, built_with, self._clock)

    async def size(self, name: str) -> IndexSize:
        """Return how much a collection holds, whatever it was built with: what a drop deletes.

        Raises:
            NotFound: There is no such collection.
        """
        _check_name(name)
        with translate_index_errors(self._folder):
            return await asyncio.to_thread(self._size, name)

    async def drop(self, name: str, *, expected: IndexSize | None = None) -> None:
        """Delete a collection with all that it holds.

        Args:
            name: Its name.
            expected: What `size` said, and somebody agreed to delete. None: whatever there is, even
                if it is damaged.

        Raises:
            NotFound: There is no such collection.
            Conflict: It holds something else by now; nothing was deleted.
        """
        _check_name(name)
        await write(self._folder, name, self._clock, lambda: self._drop(name, expected))

    def _names(self) -> list[str]:
        found = [
            path.stem for path in self._folder.glob("*.lance") if (path / "_versions").exists()
        ]
        return sorted(name for name in found if _NAME.fullmatch(name))

    def _create(self, name: str, embedder: EmbedderName) -> None:
        # Another process may have made it while this one waited.
        if name not in self._names():
            tables.create(self._folder, name, embedder)

    def _size(self, name: str) -> IndexSize:
        table = tables.open_table(self._folder, name)
        return IndexSize(documents=len(tables.ids_in(table)), pieces=table.count_rows())

    def _drop(self, name: str, expected: IndexSize | None) -> None:
        folder = tables.folder_of(self._folder, name)
        if not folder.exists():
            raise NotFound(f"there is no collection {name!r} in the vector index in {self._folder}")
        if expected is not None and (found := self._size(name)) != expected:
            raise Conflict(
                f"the collection {name!r} now holds {found.documents} documents in {found.pieces} "
                f"pieces, not {expected.documents} in {expected.pieces}: look again"
            )
        # Renamed first: after a crash it is whole or gone, and never half there.
        dropped = self._folder / f".dropped-{name}"
        if dropped.exists():
            shutil.rmtree(dropped)
        folder.rename(dropped)
        shutil.rmtree(dropped)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "collection",
            f"{name!r} is not a name: lower-case letters, digits, - and _, at most 63, with a "
            "letter or a digit first",
        )


def _prepare(folder: Path) -> Path:
    """Make sure that a folder is an index; the same, whatever the working directory becomes."""
    # First, so that nothing is made where the extra is missing.
    tables.driver()
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise InvalidInput("folder", f"{folder} is a file: name a folder for the vector index")
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / MARKER
    if marker.exists():
        _check_marker(marker)
        return folder
    others = [each.name for each in folder.iterdir() if not each.name.startswith(f".{MARKER}")]
    # Another process may have made it an index between the two looks.
    if others and not marker.exists():
        raise InvalidInput(
            "folder",
            f"{folder} is not a vector index and holds other files, such as {min(others)}: name a "
            "new or an empty folder",
        )
    # Under its name only when it is whole, and with the same content by whoever is first.
    draft = folder / f".{MARKER}.{os.getpid()}.{threading.get_ident()}"
    draft.write_bytes(msgspec.json.encode(_Marker(format=int(tables.FORMAT))))
    draft.replace(marker)
    return folder


def _check_marker(marker: Path) -> None:
    try:
        found = msgspec.json.decode(marker.read_bytes(), type=_Marker).format
    except msgspec.DecodeError:
        raise InvalidInput("folder", f"{marker} is damaged: name a new folder") from None
    if found != int(tables.FORMAT):
        raise InvalidInput(
            "folder", f"{marker.parent} has format {found}, and this Headgate reads {tables.FORMAT}"
        )
