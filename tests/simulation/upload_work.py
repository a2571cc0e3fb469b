"""A workload of two syncs that find the same records, of which each must be uploaded once.

A backfill and a live sync share their records. Nobody can prevent that a record is uploaded again
after a crash, so the checks are about senders that the store still knows: none of them uploads what
is taken, and no two of them upload the same record at the same time.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import count
from random import Random
from typing import Any

from sqlalchemy import Connection, select

from headgate.base.errors import Malformed, RateLimited, Transient
from headgate.flow.jobs.submit import JobRequest
from headgate.flow.registry import Sync
from headgate.model.job import Job, Lane, Mode, Reprocess
from headgate.model.record import Record
from headgate.model.states import JOB, DayStatus, ReceiptState
from headgate.ports.connector import Batch, Chunk, Context, Refusal, WriteResult
from headgate.store.sql.tables import coverage, in_states, jobs, receipts, records
from tests.simulation.deployment import Process, ProcessExtras
from tests.simulation.invariants import judge_ends
from tests.simulation.provider import FaultRates, records_of
from tests.simulation.workload import POLICY, JobWorkload, Stage

PAST, LIVE = "uploads", "live uploads"
ATHLETES = 2
END = date(2025, 12, 31)
#: The days that the live sync reads, and how many of them in a chunk.
RECENT_DAYS, CHUNK_DAYS = 4, 2
REFUSALS = 0.1

#: A chunk of a job, as the one who sends it claimed it: its id, token and steps.
ChunkId = tuple[str, int, int]


class WatchSource:
    """A source that has days; a live job reads the last ones of them."""

    name = "watch"

    def __init__(self, draw: Random, trouble: FaultRates) -> None:
        self._draw = draw
        self._trouble = trouble

    async def read(self, ctx: Context) -> Chunk:
        """Return the records of a day or of some recent days, or fail."""
        await ctx.clock.sleep(self._draw.uniform(0, 5))
        if self._draw.random() < self._trouble.fails:
            raise self._draw.choice((Transient("503"), Malformed("not JSON")))
        if self._draw.random() < self._trouble.defers:
            raise RateLimited(timedelta(seconds=self._draw.uniform(0, 60)))
        begin = ctx.cursor if isinstance(ctx.cursor, int) else 0
        after = begin + CHUNK_DAYS
        recent = [END - timedelta(days=number) for number in range(begin, after)]
        days = recent if ctx.day is None else [ctx.day]
        found = [record for day in days for record in records_of(ctx.connection_id, day)]
        # A source may ask what is there, or leave that to the engine.
        asks = self._draw.random() < 0.5
        known = await ctx.receipts([record.key for record in found]) if asks else {}
        left = [each for each in found if known.get(each.key) is not ReceiptState.TAKEN]
        cursor = after if after < RECENT_DAYS else None
        return Chunk(records=left, delivered_before=len(found) - len(left), cursor=cursor)


class UploadSite:
    """A destination that takes its time, and makes something of every record that it gets."""

    name = "site"

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._draw = stage.loop.random("site")
        #: What each task has claimed last; it sends in the same task.
        self.claims: dict[object, ChunkId] = {}
        #: The chunks that are being sent, by connection and key.
        self._under_way: dict[tuple[str, str], list[ChunkId]] = {}
        #: The records that were accepted, each by its connection and key.
        self.accepted: set[tuple[str, str]] = set()
        self.uploads = 0
        self.findings: list[str] = []

    async def write(self, batch: Batch) -> WriteResult:
        """Accept the records; now and then lose the response, or the request, or refuse one."""
        fails = self._stage.trouble.fails
        if self._draw.random() < fails:
            raise Transient("the request to the site was lost")
        sender = self.claims[asyncio.current_task()]
        places = [(batch.connection_id, record.key) for record in batch.records]
        for place in places:
            self._under_way.setdefault(place, []).append(sender)
        try:
            await self._stage.client.database.read(lambda tx: self._judge(tx, sender, places))
            await batch.clock.sleep(self._draw.uniform(0, 20))
        finally:
            for place in places:
                self._under_way[place].remove(sender)
        refused = {place for place in places if self._draw.random() < REFUSALS}
        taken = [place for place in places if place not in refused]
        self.accepted.update(taken)
        self.uploads += len(taken)
        if self._draw.random() < fails:
            raise Transient("the site took the records, but its response was lost")
        return WriteResult(
            receipts=[Record(key, {"uploaded": True}) for _, key in taken],
            refused=[Refusal(key, "no") for _, key in sorted(refused)],
        )

    def _judge(self, tx: Connection, sender: ChunkId, places: Iterable[tuple[str, str]]) -> None:
        """Note what a sender that the store still knows should not be sending."""
        at_work = {
            (row.id, row.token, row.steps)
            for row in tx.execute(
                select(jobs.c.id, jobs.c.token, jobs.c.steps).where(in_states(jobs, *JOB.claimed))
            )
        }
        if sender not in at_work:
            return
        taken = _states(tx)
        for place in places:
            if taken.get(place) is ReceiptState.TAKEN:
                self.findings.append(f"AGAIN: {sender[0]} sends {place}, which is taken")
            others = {other for other in self._under_way[place] if other[0] != sender[0]}
            if others & at_work:
                self.findings.append(f"CLASH: {sender[0]} and another job send {place}")


class UploadWorkload(JobWorkload):
    """The workload: athletes whose past and recent days are uploaded at the same time."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._source = WatchSource(stage.loop.random("watch"), stage.trouble)
        self._site = UploadSite(stage)
        self._keys = count()

    def syncs(self) -> Sequence[Sync]:
        """Return the backfill and the live sync."""
        common: dict[str, Any] = {
            "source": self._source,
            "destination": self._site,
            "delivers_once": True,
            "retry": POLICY,
            "chunk_s_max": 60,
        }
        return (
            Sync(name=PAST, modes=(Mode.HISTORY,), **common),
            Sync(name=LIVE, modes=(Mode.FULL,), lane=Lane.HOT, stored_as=PAST, **common),
        )

    def join(self, process: Process) -> ProcessExtras:
        """Watch what the process claims."""
        receipts = process.sql_receipts
        claim = receipts.claim_records

        async def claim_noted(
            job: Job, stored_as: str, keys: Sequence[str]
        ) -> Mapping[str, ReceiptState]:
            self._site.claims[asyncio.current_task()] = (job.id, job.token, job.steps)
            return await claim(job, stored_as, keys)

        receipts.claim_records = claim_noted  # type: ignore[method-assign]
        return ProcessExtras()

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the athletes: each submits jobs of both kinds, and interferes."""
        return [self._athlete(number) for number in range(ATHLETES)]

    async def _athlete(self, number: int) -> None:
        async def act(draw: Random) -> None:
            if draw.random() < 0.8 or not self.acknowledged:
                await self._submit(number, draw.random())
            else:
                await self.command(draw.choice(sorted(self.acknowledged)), draw.random())

        await self.act(f"athlete {number}", act)

    async def _submit(self, number: int, chance: float) -> None:
        history = chance < 0.4
        request = JobRequest(
            sync=PAST if history else LIVE,
            user_id=f"athlete-{number}",
            connection_id=f"athlete-{number}",
            mode=Mode.HISTORY if history else Mode.FULL,
            start_date=END - timedelta(days=int(chance * 20)) if history else None,
            end_date=END if history else None,
            reprocess=Reprocess.ALL if chance < 0.3 else Reprocess.FAILED,
            key=f"upload-{next(self._keys)}",
        )
        await self.submit(request)

    def judge(self, tx: Connection) -> Iterable[str]:
        """Check LOSS, LIVE and ONCE of the jobs, AGAIN and CLASH, and that receipts are true."""
        yield from judge_ends(tx, self.acknowledged)
        yield from self._site.findings
        states = _states(tx)
        taken = {place for place, state in states.items() if state is ReceiptState.TAKEN}
        for place in sorted(taken - self._site.accepted):
            yield f"LOSS: {place} counts as taken, and the site does not have it"
        stored = select(records.c.connection_id, records.c.key).where(records.c.sync == PAST)
        for place in sorted({(row[0], row[1]) for row in tx.execute(stored)} ^ taken):
            yield f"LOSS: {place} is stored or taken, but not both"
        held = select(coverage.c.connection_id, coverage.c.day).where(
            coverage.c.sync == PAST, coverage.c.status == DayStatus.HELD
        )
        for connection_id, day in tx.execute(held):
            for record in records_of(connection_id, day):
                if states.get((connection_id, record.key)) in (None, ReceiptState.CLAIMED):
                    yield f"LOSS: {day} of {connection_id} is held without {record.key}"

    def counts(self) -> Mapping[str, int]:
        """Count the jobs and the uploads."""
        return {**super().counts(), "uploads": self._site.uploads}


def _states(tx: Connection) -> dict[tuple[str, str], ReceiptState]:
    """The receipts, by connection and key."""
    query = select(receipts.c.connection_id, receipts.c.key, receipts.c.state)
    return {(row.connection_id, row.key): row.state for row in tx.execute(query)}
