"""A workload of two syncs: one stores its records, the other sends them to a ledger."""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import date, timedelta
from random import Random
from typing import Any

from sqlalchemy import Connection

from headgate.flow.jobs.submit import JobRequest
from headgate.flow.registry import Sync
from headgate.model.job import Mode, Reprocess
from tests.simulation.invariants import judge, judge_arrivals
from tests.simulation.provider import RequestLedger, SimulatedProvider
from tests.simulation.workload import POLICY, JobWorkload, Stage

#: The most people; a seed draws how many.
USERS_MAX = 4
END = date(2025, 12, 31)


class SyncWorkload(JobWorkload):
    """The workload: people who read days and pages."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._ledger = RequestLedger(stage.loop.random("ledger"), stage.trouble, stage.loop.time)
        self._provider = SimulatedProvider("provider", stage.loop.random("provider"), stage.trouble)

    def syncs(self) -> Sequence[Sync]:
        """Return the sync that stores, and the sync that sends."""
        kept = Sync(name="kept", source=self._provider, retry=POLICY, chunk_s_max=60)
        sent = Sync(
            name="sent",
            source=self._provider,
            destination=self._ledger,
            retry=POLICY,
            chunk_s_max=60,
        )
        return kept, sent

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return people who submit jobs, and now and then pause, resume, cancel or retry one."""
        count = self.stage.loop.random("people").randint(2, USERS_MAX)
        return [self._person(number) for number in range(count)]

    async def _person(self, number: int) -> None:
        async def act(draw: Random) -> None:
            if draw.random() < 0.5 or not self.acknowledged:
                await self._submit(draw.choice(("kept", "sent")), number, draw.random())
            else:
                await self.command(draw.choice(sorted(self.acknowledged)), draw.random())

        await self.act(f"person {number}", act)

    async def _submit(self, sync: str, number: int, chance: float) -> None:
        history = chance < 0.6
        # Several people act for one user, so that their jobs meet.
        user = f"user-{int(chance * 1000) % 3}"
        request = JobRequest(
            sync=sync,
            user_id=user,
            connection_id=user,
            mode=Mode.HISTORY if history else Mode.FULL,
            start_date=END - timedelta(days=int(chance * 17)) if history else None,
            end_date=END if history else None,
            # Mostly read all days again; now and then only those that are missing.
            reprocess=Reprocess.ALL if chance < 0.4 else Reprocess.FAILED,
            key=f"{number}-{self.stage.loop.time()}",
        )
        await self.submit(request)

    def judge(self, tx: Connection) -> Iterable[str]:
        """Check LOSS, LIVE, ONCE, ZOMBIE and EARLY."""
        yield from judge(tx, self.acknowledged, self._ledger)
        yield from judge_arrivals(tx, self._provider.early)

    def counts(self) -> Mapping[str, int]:
        """Count the jobs, and the chunks that the ledger has accepted."""
        return {**super().counts(), "chunks": len(self._ledger.accepted)}
