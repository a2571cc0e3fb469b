"""A real worker process of the notes index, which a test can stop at a point and kill there.

`HOLD_AT=point:n` holds it the n-th time it comes to that point: it says so, and goes on when it is
sent a line. Every call of the embedder is noted in the file `EMBEDDED`. The database, the keys, the
folder and Roam's address are those of Headgate's own settings.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headgate import App, Lane, LaneSize, WorkerSettings
from headgate.settings import Settings
from headgate.systems.notes_index import system
from headgate.systems.notes_index.settings import NotesIndexSettings
from headgate.systems.notes_index.source import RoamNotes
from headgate.systems.notes_index.syncs import NAME, indexes_of, notes_index
from tests.vectors import LetterEmbedder

LEASE_S = 3.0
#: In the embedder; and when the index is written and nothing committed.
EMBEDDING, SETTLING = "embedding", "settling"

_seen: Counter[str] = Counter()


async def hold_point(name: str) -> None:
    """Wait here, if this is where and when it was asked for."""
    point, _, count = os.environ.get("HOLD_AT", "").partition(":")
    _seen[name] += 1
    if point == name and _seen[name] == int(count):
        print(f"holding {name}", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


class NotingEmbedder(LetterEmbedder):
    """Notes the titles of the pages of every call, before it embeds them."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text."""
        _note(list(titles_in(texts)))
        await hold_point(EMBEDDING)
        return await super().embed(texts)


def _note(titles: Sequence[str]) -> None:
    with Path(os.environ["EMBEDDED"]).open("ab") as file:
        file.write(msgspec.json.encode(titles) + b"\n")


def titles_in(texts: Sequence[str]) -> Iterable[str]:
    """The titles of the pages that begin in these texts."""
    for text in texts:
        line = text.partition("\n")[0]
        if line.startswith("[["):
            yield line.removeprefix("[[").removesuffix("]]")


def application() -> App:
    """The application, with one job at a time, so that points are passed in the order of a run."""
    size = LaneSize(concurrency=1, slice_s=60.0)
    settings = NotesIndexSettings()
    indexes = indexes_of(settings, NotingEmbedder())
    sync = notes_index(settings.roam(), indexes, batch=settings.notes_batch)
    return App(
        Settings().database,
        systems=[system.with_syncs([sync], settings)],
        worker=WorkerSettings(
            lanes={Lane.HOT: size, Lane.COLD: size}, lease_s=LEASE_S, grace_s=20.0
        ),
    )


def with_hold_points(app: App) -> App:
    """The same, with a point before its store's commit."""
    settle = app._runtime.jobs.settle

    async def settle_and_hold(*args: Any, **named: Any) -> Any:
        await hold_point(SETTLING)
        return await settle(*args, **named)

    app._runtime.jobs.settle = settle_and_hold  # type: ignore[method-assign]
    return app


async def main() -> None:
    """Work until told to stop."""
    async with with_hold_points(application()) as app:
        source = app.registry.get(NAME).source
        assert isinstance(source, RoamNotes)
        # What takes long to load is there before anything is claimed: leases are short.
        await source.indexes.open()
        supervisor = app.supervisor()
        print("ready", flush=True)
        await supervisor.run_until_stopped(handle_signals=True)


if __name__ == "__main__":
    asyncio.run(main())
