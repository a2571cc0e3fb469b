"""A process that holds a worker's lock on a SQLite file: `lock_holder FILE WORKER`."""

import asyncio
import sys
from pathlib import Path

from headgate.signals.file_locks import FileLocks
from headgate.signals.process_folder import ProcessFolder


async def main(file: str, worker: str) -> None:
    """Hold it until the input ends."""
    locks = FileLocks(ProcessFolder(Path(file)))
    await locks.hold(worker)
    print("held" if locks.held else "not held", flush=True)
    sys.stdin.read()
    await locks.release()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
