"""The supervisor of a worker process: it starts all services, and stops them without losing work.

A stop has three phases. First nothing new is claimed, and slices end at their next checkpoint. Jobs
that still run after the grace period are interrupted and released unchanged. A job that does not
end even then keeps its lease until it expires, and another process rescues it.
"""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from headgate.base.errors import InvalidInput, StoreUnavailable
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.base.service import Service
from headgate.flow.leases.claims import ActiveClaims
from headgate.flow.leases.recover import leased_work
from headgate.flow.outbox.service import OutboxSettings
from headgate.flow.runtime import Runtime
from headgate.flow.step.check_chunk import ChunkLimits
from headgate.flow.step.claimed_job import ClaimedJob, Interrupt
from headgate.loops.drainer import target_workers
from headgate.loops.eraser import Eraser
from headgate.loops.heartbeat import Heartbeat, Presence
from headgate.loops.lanes import LaneSize, LaneWorkers
from headgate.loops.liveness import LivenessWatch
from headgate.loops.notifier import Notifier
from headgate.loops.pruner import pruners
from headgate.loops.reporter import Reporter
from headgate.loops.rescuer import Rescuer
from headgate.loops.scheduler import Scheduler
from headgate.model.job import Lane
from headgate.model.worker import Abilities
from headgate.ports.signal import CONTROL

#: How long interrupted chunks have to release their jobs.
RELEASE_S_MAX = 5.0

HOT_AND_COLD: Mapping[Lane, LaneSize] = {
    # Many short slices: live work is small, and somebody is waiting for it.
    # Two batches of the store: one is written while the other is worked on.
    Lane.HOT: LaneSize(concurrency=200, slice_s=5.0),
    # Few long slices: a backfill can wait, and should not crowd a provider.
    Lane.COLD: LaneSize(concurrency=4, slice_s=60.0),
}

_log = get_logger(__name__)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a worker process."""

    lanes: Mapping[Lane, LaneSize] = msgspec.field(default_factory=lambda: dict(HOT_AND_COLD))
    #: A worker without a heartbeat for so long loses its jobs.
    lease_s: float = 60.0
    #: How long running chunks have to finish after the first signal to stop.
    grace_s: float = 20.0
    #: How long ended jobs are kept, with what they did; None: for ever.
    keep_jobs: timedelta | None = None
    keep_events: timedelta = timedelta(days=30)
    #: How long it is known what a tick meant for each user; monthly wishes need two months.
    keep_ticks: timedelta = timedelta(days=90)
    outbox: OutboxSettings = OutboxSettings()
    chunk: ChunkLimits = ChunkLimits()

    def __post_init__(self) -> None:
        """Refuse settings that cannot work, naming the field."""
        if self.lease_s <= 0:
            raise InvalidInput("lease_s", "must be above 0")
        if self.grace_s < 0:
            raise InvalidInput("grace_s", "must not be negative")
        if self.keep_jobs is not None and self.keep_jobs <= timedelta(0):
            raise InvalidInput("keep_jobs", "must be above 0, or None to keep jobs for ever")


class Supervisor:
    """The lanes, the heartbeat, the rescuer and all other services of one process."""

    def __init__(self, rt: Runtime, settings: WorkerSettings, *, worker: str) -> None:
        """Prepare to run as `worker`, a name that no other process has."""
        self._settings = settings
        self._worker = worker
        lease_s = settings.lease_s
        self._jobs = ActiveClaims(
            rt.jobs,
            rt.clock,
            lease=timedelta(seconds=lease_s),
            measurements=rt.measurements,
        )
        leased = leased_work(rt, self._jobs)
        abilities = Abilities(
            lanes=tuple(settings.lanes),
            syncs=tuple(rt.registry.names),
            collections=tuple(rt.registry.collections),
        )
        self._presence = Presence(
            rt.workers, rt.signal.liveness, worker, abilities, lease_s=lease_s
        )
        self._heartbeat = Heartbeat(
            [each.claims for each in leased],
            rt.clock,
            lease_s=lease_s,
            presence=self._presence,
        )
        rt.signal.subscribe(CONTROL, self._heartbeat)
        self._lanes = [
            LaneWorkers(rt, lane, size, self._jobs, worker=worker)
            for lane, size in settings.lanes.items()
        ]
        self._senders = (
            [] if rt.drainer is None else target_workers(rt, rt.drainer, settings.outbox)
        )
        self._rescuer = Rescuer(rt, leased, lease_s=lease_s)
        self._housekeepers = housekeepers(rt, settings)
        self._liveness = LivenessWatch(rt, leased, worker=worker, lease_s=lease_s)
        self._rescuer.on_claims = self._liveness.nudge
        for each in self._lanes:
            each.on_due = self._liveness.nudge
        self._measurements = rt.measurements
        self._reporter = Reporter(rt.measurements, rt.clock)
        self._abilities = abilities
        self._schedulers = [Scheduler(rt, worker=worker)] if rt.registry.schedules else []
        self._services: Sequence[Service] = (
            *(self._heartbeat, self._rescuer, self._liveness, self._reporter),
            *(*self._housekeepers, *self._schedulers),
            *(*self._lanes, *self._senders),
        )
        self._stop_requested = asyncio.Event()
        self._stop_now = asyncio.Event()

    async def start(self) -> None:
        """Start all services; whoever looks for workers finds this one from then on."""
        try:
            await self._presence.beat()
        except StoreUnavailable:
            # The heartbeat says that it is alive as soon as the store can be reached.
            pass
        _log.info(
            LogEvent.STARTED,
            worker=self._worker,
            lanes=[lane.value for lane in self._abilities.lanes],
            syncs=list(self._abilities.syncs),
        )
        for service in self._services:
            await service.start()

    def request_stop(self) -> None:
        """Stop within the grace period; the second call releases all jobs at once."""
        if self._stop_requested.is_set():
            self._stop_now.set()
        self._stop_requested.set()

    def stop_when_idle(self) -> None:
        """Stop as soon as nothing is due, of jobs and of messages; call it before the start."""

        def look() -> None:
            if all(service.resting for service in self._services):
                self._stop_requested.set()

        for service in self._services:
            service.on_rest = look

    def take_one_job(self) -> None:
        """Work on one job of each lane and on no other; call it before the start."""
        for lane in self._lanes:
            lane.take_one()

    @property
    def taken(self) -> Sequence[str]:
        """The jobs that were taken, after `take_one_job`."""
        return [job_id for lane in self._lanes for job_id in lane.taken]

    async def run_until_stopped(self, *, handle_signals: bool = False) -> None:
        """Run until `request_stop`, or until SIGTERM or SIGINT if `handle_signals` is set."""
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        for number in handled:
            loop.add_signal_handler(number, self.request_stop)
        try:
            await self.start()
            await self._stop_requested.wait()
            await self.stop()
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    async def stop(self) -> None:
        """Stop claiming, then finish or release all claimed jobs, within the grace period."""
        self._stop_requested.set()
        for lane in self._lanes:
            await lane.stop()
        for claimed in self._claimed():
            claimed.stopping = True
        released = left = 0
        if not await self._wait_for_slices(self._settings.grace_s):
            released = len(self._jobs)
            for claimed in self._claimed():
                claimed.interrupt(Interrupt.STOP)
            self._stop_now.clear()
            clean = await self._wait_for_slices(RELEASE_S_MAX)
            left = 0 if clean else len(self._jobs)
        self._log_stop(released=released, left=left)
        for service in (*self._schedulers, self._liveness, self._reporter, *self._housekeepers):
            await service.stop()
        for service in (self._heartbeat, self._rescuer):
            await service.stop()
        try:
            await self._presence.end()
        except StoreUnavailable as error:
            # The worker counts as gone anyway once its row expires.
            _log.warning(LogEvent.PRESENCE_NOT_ENDED, error=describe_error(error))

    def _log_stop(self, *, released: int, left: int) -> None:
        """Tell how it ended, and what was done since the start."""
        done = self._measurements.totals()
        _log.info(
            LogEvent.STOPPED,
            chunks=done["chunks"],
            records=done["records"],
            items=done["items"],
            jobs_ended=done["jobs_ended"],
            failed=done["failed"],
            released=released,
            left_to_leases=left,
        )

    def _claimed(self) -> list[ClaimedJob]:
        return [claim for claim in self._jobs if isinstance(claim, ClaimedJob)]

    async def _wait_for_slices(self, seconds: float) -> bool:
        """Wait for the slices to end, or for a second stop; whether all have ended."""
        joined = asyncio.ensure_future(
            asyncio.gather(
                *(lane.join() for lane in self._lanes), *(each.stop() for each in self._senders)
            )
        )
        stop_now = asyncio.ensure_future(self._stop_now.wait())
        try:
            await asyncio.wait(
                (joined, stop_now), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            return joined.done()
        finally:
            for waiting in (joined, stop_now):
                waiting.cancel()
            await asyncio.gather(joined, stop_now, return_exceptions=True)


def housekeepers(rt: Runtime, settings: WorkerSettings) -> Sequence[Service]:
    """The services that look for what was left over: those that have anything to look for here."""
    return [
        *pruners(
            rt,
            keep_jobs=settings.keep_jobs,
            keep_events=settings.keep_events,
            keep_sent=settings.outbox.keep_sent,
            keep_ticks=settings.keep_ticks,
        ),
        *([] if rt.notifications is None else [Notifier(rt, rt.notifications)]),
        *([Eraser(rt)] if rt.erasures is not None else []),
    ]
