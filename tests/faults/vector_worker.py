"""A process that writes to a vector index, to be killed, hindered, or raced against."""

import asyncio
import os
import resource
import signal
import sys
from itertools import count
from pathlib import Path

from headgate import HeadgateError
from headgate.connectors.vectors import VectorCollection, VectorDocument
from tests.vectors import document, opened

DOCUMENTS = 3
RACES = 30
NOBODY = 65534


def version(document_id: str, number: int) -> VectorDocument:
    """A version of a document: its number says how many pieces it has, and each names it."""
    pieces = number % 5 + 1
    return document(document_id, *(f"{number}/{pieces}/{place}" for place in range(pieces)))


async def rewrite(notes: VectorCollection) -> None:
    """Write new versions of the same documents for ever."""
    for number in count():
        print(f"begin {number}")
        await notes.upsert([version(f"page-{each}", number) for each in range(DOCUMENTS)])
        print(f"done {number}")


async def race(notes: VectorCollection, name: str) -> None:
    """Add the same documents as everybody else, at the same time, and some of its own."""
    for number in range(RACES):
        await notes.upsert([document(f"all-{number}", f"{name} one", f"{name} two", "same")])
        await notes.upsert([document(f"{name}-{number}", "own")])
        print(f"wrote {number}")


async def hindered(notes: VectorCollection) -> None:
    """Write much more than there is room or a right for, and say how that ends."""
    pieces = (f"piece {number} {os.urandom(40).hex()}" for number in range(2_000))
    try:
        await notes.upsert([document("page", *pieces)])
    except HeadgateError as error:
        print(f"failed {type(error).__name__}: {error}")


async def main(folder: str, work: str, name: str) -> None:
    """Open the index, wait for the word, and work."""
    notes = await opened(Path(folder))
    if work == "full":
        # A write that goes further fails, as on a disk that is full.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    if work == "read-only" and os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    print("ready")
    await asyncio.to_thread(sys.stdin.readline)
    match work:
        case "rewrite":
            await rewrite(notes)
        case "race":
            await race(notes, name)
        case _:
            await hindered(notes)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
