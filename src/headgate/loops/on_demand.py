"""A worker without loops: it works on the jobs that a queue names, and sweeps when it is called.

A function of a cloud is called, works, and is frozen. So nothing here goes on between two calls:
the heartbeat runs only while a batch of jobs is worked on, and the caller says how much time there
is.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.service import BATCH_REST_S, Service
from headgate.flow.leases.claims import ActiveClaims
from headgate.flow.leases.recover import leased_work
from headgate.flow.runtime import Runtime
from headgate.flow.step.claimed_job import ClaimedJob, Interrupt
from headgate.flow.step.step import run_slice
from headgate.loops.heartbeat import Heartbeat
from headgate.loops.rescuer import Rescuer
from headgate.loops.supervisor import WorkerSettings, housekeepers
from headgate.model.job import Job, Lane
from headgate.model.worker import Abilities
from headgate.policy.hints import needs_hint
from headgate.ports.jobs.hints import HintedClaims
from headgate.ports.signal import job_hints, lane_topic

#: Kept at the end of a call: a chunk is interrupted then, and its job released and announced.
RESERVE_S = 10.0
#: The most rounds of one sweep.
ROUNDS_MAX = 20
#: For how long whoever looks for workers finds the functions after a sweep.
PRESENCE = timedelta(minutes=5)
#: Due jobs that one sweep looks at, of each lane: those that have waited longest. Their messages
#: are sent in seconds, and their rows are as many read units.
RESEND_MAX = 5000
#: The first sweep of a process looks back so far, for the sweep of the process before it: sweeps
#: are a minute apart, more or less. A job may get a second message by that, and none is missed.
LOOK_BACK = timedelta(seconds=90)

_log = get_logger(__name__)


class OnDemandWorker:
    """Works on jobs that are named, and sweeps, in the time that it is given."""

    def __init__(
        self, rt: Runtime, hinted: HintedClaims, settings: WorkerSettings, *, worker: str
    ) -> None:
        """Prepare to work as `worker`, a name that no other process has.

        `hinted` is the store of the runtime, whose jobs can be claimed by their ids.
        """
        self._rt = rt
        self._hinted = hinted
        self._settings = settings
        self._worker = worker
        self._lease = timedelta(seconds=settings.lease_s)
        self._jobs = ActiveClaims(
            rt.jobs, rt.clock, lease=self._lease, measurements=rt.measurements
        )
        self._leased = leased_work(rt, self._jobs)
        #: The store's time at the last look for forgotten jobs.
        self._looked_at: dict[Lane, datetime] = {}
        self._rescuer = Rescuer(rt, self._leased, lease_s=settings.lease_s)
        #: When each is due next.
        self._due_s: dict[Service, float] = dict.fromkeys(
            (self._rescuer, *housekeepers(rt, settings)), 0.0
        )

    @asynccontextmanager
    async def extending(self) -> AsyncIterator[None]:
        """Extend the leases of what is claimed for the length of a block, and not after it."""
        heartbeat = Heartbeat(
            [each.claims for each in self._leased], self._rt.clock, lease_s=self._settings.lease_s
        )
        await heartbeat.start()
        try:
            yield
        finally:
            await heartbeat.stop()

    async def run_job(self, job_id: str, *, step: int, lane: Lane, seconds: float) -> Job | None:
        """Claim the job and work on a slice of it, in so many seconds; then announce the rest.

        Returns the job after that; None if it was not to be had: it is claimed, not due, or beyond
        that step, because the hint came late or twice.
        """
        rt, began_s = self._rt, self._rt.clock.monotonic()
        job = await self._hinted.claim_job(
            job_id, step=step, worker=self._worker, lease=self._lease
        )
        if job is None:
            return None
        claimed = ClaimedJob(job, self._jobs)
        self._jobs.add([claimed], seen_s=began_s)
        work_s = max(0.0, seconds - RESERVE_S)
        ending = asyncio.get_running_loop().call_later(work_s, claimed.interrupt, Interrupt.STOP)
        try:
            slice_s = min(self._settings.lanes[lane].slice_s, work_s)
            after = await run_slice(rt, claimed, slice_s=slice_s)
            if claimed.closing is not None:
                await claimed.closing
            if after is None:
                self._jobs.lose(claimed.row)
        finally:
            ending.cancel()
            self._jobs.drop(claimed.row)
        if after is not None:
            await rt.signal.announce(lane_topic(after.lane), job_hints([after]))
        return after

    async def sweep(self, *, seconds: float) -> int:
        """Announce jobs without a hint, rescue, thaw and prune; returns how many were announced.

        What is rescued or thawed has its hint at once. Jobs without one come first: pruning takes
        the longest, and if it fails or the time runs out, nobody else announces them.
        """
        rt = self._rt
        abilities = Abilities(
            lanes=tuple(self._settings.lanes),
            syncs=tuple(rt.registry.names),
            collections=tuple(rt.registry.collections),
        )
        ends_s = rt.clock.monotonic() + max(0.0, seconds - RESERVE_S)
        await rt.workers.refresh_worker("on-demand", abilities, term=PRESENCE)
        announced = sum([await self._announce_forgotten(lane) for lane in self._settings.lanes])
        # Every sweep rescues, and few of them prune.
        self._due_s[self._rescuer] = began_s = rt.clock.monotonic()
        due = [each for each, due_s in self._due_s.items() if due_s <= began_s]
        for _ in range(ROUNDS_MAX):
            due = [each for each in due if await self._has_more(each)]
            if not due or rt.clock.monotonic() >= ends_s:
                break
        return announced

    async def _has_more(self, service: Service) -> bool:
        """Do a round of the service, and note when the next one is due; whether that is at once."""
        rest_s = await service.run_once()
        assert rest_s is not None
        self._due_s[service] = self._rt.clock.monotonic() + rest_s
        return rest_s <= BATCH_REST_S

    async def _announce_forgotten(self, lane: Lane) -> int:
        """Announce due jobs whose hint was lost, or was too far off to be sent at the time."""
        due, now = await self._hinted.list_due(lane, limit=RESEND_MAX)
        since = self._looked_at.get(lane, now - LOOK_BACK)
        forgotten = [job for job in due if needs_hint(job, since=since, now=now)]
        if forgotten:
            await self._rt.signal.announce(lane_topic(lane), job_hints(forgotten))
            _log.info(LogEvent.HINTS_SENT_AGAIN, lane=lane.value, count=len(forgotten))
        self._looked_at[lane] = now
        return len(forgotten)
