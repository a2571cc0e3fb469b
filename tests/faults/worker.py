"""A real worker process for fault tests: an application whose effects land in a ledger file.

`CRASH_AT=point:n` kills it, as by kill -9, the n-th time it comes to that point.
"""

import asyncio
import os
import signal
import sqlite3
from collections import Counter
from typing import Any

from headgate import App, Batch, Chunk, Context, Lane, LaneSize, Record, Sync, WorkerSettings
from headgate.base.ids import system_random
from headgate.loops import liveness
from headgate.signals import session_locks

POINTS = ("after_claim", "before_dest_write", "after_dest_write", "before_settle", "after_settle")

_seen: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Die here, if this is where and when it was asked for."""
    point, _, count = os.environ.get("CRASH_AT", "").partition(":")
    _seen[name] += 1
    if point == name and _seen[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)


class Source:
    """Reads a day, taking its time, with one record in it."""

    name = "days"

    async def read(self, ctx: Context) -> Chunk:
        """One day."""
        print("reading", ctx.job_id, ctx.day, flush=True)
        await ctx.clock.sleep(float(os.environ["CHUNK_S"]) * system_random().random())
        return Chunk(records=[Record(str(ctx.day), {"day": str(ctx.day)})])


class LedgerFile:
    """A destination that honours keys: another system, with a database of its own."""

    name = "ledger"

    def __init__(self, path: str) -> None:
        """Write to the SQLite file at `path`."""
        self._ledger = sqlite3.connect(path, isolation_level=None, timeout=30)

    async def write(self, batch: Batch) -> None:
        """Note that it was sent, and accept it once."""
        crash_point("before_dest_write")
        self._ledger.execute("INSERT INTO sent VALUES (?)", (batch.key,))
        self._ledger.execute("INSERT OR IGNORE INTO accepted VALUES (?)", (batch.key,))
        crash_point("after_dest_write")


def application() -> App:
    """The application, with crash points around its store."""
    # Whose lock is free at all looks for so long is dead: two looks in a row, as by default.
    liveness.LOOK_EVERY_S = float(os.environ["LOOK_S"])
    session_locks.PATIENCE_S = 2 * liveness.LOOK_EVERY_S
    size = LaneSize(concurrency=4, slice_s=1.0)
    syncs = [
        Sync(name="kept", source=Source()),
        Sync(name="sent", source=Source(), destination=LedgerFile(os.environ["LEDGER"])),
    ]
    app = App(
        os.environ["DATABASE"],
        syncs=[sync for sync in syncs if sync.name in os.environ["SYNCS"].split()],
        worker=WorkerSettings(
            lanes={Lane.HOT: size, Lane.COLD: size},
            lease_s=float(os.environ["LEASE_S"]),
            grace_s=10.0,
        ),
    )
    claim, settle = app._runtime.jobs.claim, app._runtime.jobs.settle

    async def claim_or_crash(*args: Any, **named: Any) -> Any:
        claimed = await claim(*args, **named)
        if claimed.jobs:
            crash_point("after_claim")
        return claimed

    async def settle_or_crash(*args: Any, **named: Any) -> Any:
        crash_point("before_settle")
        settled = await settle(*args, **named)
        crash_point("after_settle")
        return settled

    app._runtime.jobs.claim = claim_or_crash  # type: ignore[method-assign]
    app._runtime.jobs.settle = settle_or_crash  # type: ignore[method-assign]
    return app


async def main() -> None:
    """Work until told to stop."""
    async with application() as app:
        supervisor = app.supervisor()
        print("ready", flush=True)
        await supervisor.run_until_stopped(handle_signals=True)


if __name__ == "__main__":
    asyncio.run(main())
