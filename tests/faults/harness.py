"""Starts, kills and watches real worker processes, and judges what they left."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path

from headgate import App, Chunk, Context, EventKind, HeadgateError, JobState, Mode, Sync
from headgate.loops import liveness
from headgate.model.states import JOB
from headgate.types import Job
from tests.faults.crew import Crew, freeze
from tests.processes import Process

WAIT_S_MAX = 90.0
END = date(2025, 12, 31)


class Site:
    """A database, a ledger and the workers around them."""

    def __init__(
        self, folder: Path, address: str, *, lease_s: float, chunk_s: float, look_s: float
    ) -> None:
        self.ledger = folder / "ledger.db"
        self.address = address
        self._crew = Crew(
            "tests.faults.worker",
            DATABASE=address,
            LEDGER=str(self.ledger),
            LEASE_S=str(lease_s),
            CHUNK_S=str(chunk_s),
            LOOK_S=str(look_s),
        )
        with sqlite3.connect(self.ledger) as ledger:
            ledger.execute("PRAGMA journal_mode = WAL")
            ledger.execute("CREATE TABLE sent (key TEXT)")
            ledger.execute("CREATE TABLE accepted (key TEXT PRIMARY KEY)")

    def start(self, *, crash_at: str = "", syncs: str = "kept sent") -> Process:
        """Start a worker of an application with these syncs, and wait until it works."""
        return self._crew.start(CRASH_AT=crash_at, SYNCS=syncs)

    def end(self) -> None:
        """End every worker."""
        self._crew.end()

    async def freeze(self, worker: Process) -> None:
        """Stop a worker while it holds no write lock on a SQLite file, jobs or ledger."""
        await freeze(worker, str(self.ledger), self.address)

    async def submit(self, count: int, *, days: int = 4, first: int = 0) -> list[str]:
        """So many history jobs, half of them kept and half sent; of users from `first` on."""
        ids = []
        async with self._client() as client:
            for number in range(first, first + count):
                submitted = await client.jobs.submit(
                    "sent" if number % 2 == 0 else "kept",
                    user_id=f"user-{number}",
                    mode=Mode.HISTORY,
                    start_date=END - timedelta(days=days - 1),
                    end_date=END,
                    # Also what an earlier job has read.
                    reprocess="all",
                )
                ids.append(submitted.job.id)
        return ids

    async def wait(self, ids: list[str]) -> list[Job]:
        """Wait until all have ended, across outages of the database."""
        deadline = time.monotonic() + WAIT_S_MAX
        jobs: list[Job] = []
        async with self._client() as client:
            while time.monotonic() < deadline:
                with suppress(HeadgateError):
                    jobs = [await client.jobs.get(job_id) for job_id in ids]
                    if all(job.state in JOB.terminal for job in jobs):
                        return jobs
                await asyncio.sleep(0.2)
        states = Counter((job.state.value, job.reason.value) for job in jobs)
        raise AssertionError(f"not all jobs ended in {WAIT_S_MAX} s: {states}")

    async def judge(self, jobs: list[Job], *, days: int = 4) -> None:
        """Nothing lost, nothing done twice: every job whole, every chunk committed once."""
        with sqlite3.connect(self.ledger) as ledger:
            accepted = {key for (key,) in ledger.execute("SELECT key FROM accepted")}
        expected = set()
        async with self._client() as client:
            for job in jobs:
                assert job.state is JobState.SUCCESS, (job.reason, job.error)
                assert job.steps == days
                events = await client.jobs.events(job.id, limit=1000)
                told = [
                    event
                    for event in events
                    if event.kind in (EventKind.CHUNK, EventKind.SUCCEEDED)
                ]
                assert len(told) == days
                covered = await client.records.coverage(
                    job.sync, job.connection_id, start=END - timedelta(days=days - 1), end=END
                )
                assert len(covered) == days
                if job.sync == "sent":
                    expected |= {f"{job.id}:{step}" for step in range(days)}
                else:
                    assert len(await client.records.list(job.sync, job.connection_id)) == days
        assert accepted == expected

    def sent(self) -> int:
        """How often anything was sent, repeats included."""
        with sqlite3.connect(self.ledger) as ledger:
            (count,) = ledger.execute("SELECT count(*) FROM sent").fetchone()
        return int(count)

    def _client(self) -> App:
        return App(
            self.address, syncs=[Sync(name=name, source=_Unread()) for name in ("kept", "sent")]
        )


class _Unread:
    name = "days"

    async def read(self, ctx: Context) -> Chunk:
        raise AssertionError("only workers read")


@contextmanager
def site(
    folder: Path,
    address: str,
    *,
    lease_s: float = 1.5,
    chunk_s: float = 0.1,
    look_s: float = liveness.LOOK_EVERY_S,
) -> Iterator[Site]:
    """A site whose workers are gone afterwards; they look for dead ones every `look_s` seconds."""
    made = Site(folder, address, lease_s=lease_s, chunk_s=chunk_s, look_s=look_s)
    try:
        yield made
    finally:
        made.end()
