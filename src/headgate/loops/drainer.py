"""The background workers of the outbox: one for each target, so that none waits for another."""

import asyncio
from collections.abc import Sequence

from headgate.base.clock import Clock
from headgate.base.service import Service
from headgate.flow.outbox.attempts import DrainResult
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.flow.outbox.service import OutboxSettings
from headgate.flow.runtime import Runtime
from headgate.model.target import Target
from headgate.ports.signal import OUTBOX, Signal


class TargetWorker(Service):
    """Drains one target: when something is enqueued or due, and at intervals."""

    def __init__(
        self,
        drainer: Drainer,
        target: Target,
        settings: OutboxSettings,
        *,
        signal: Signal,
        clock: Clock,
    ) -> None:
        """Send to `target`."""
        super().__init__(clock)
        self.name = f"outbox.{target.name}"
        self._drainer = drainer
        self._target = target
        self._settings = settings
        #: What it has sent since it started.
        self.totals = DrainResult(target=target.name)
        #: A stopped target is tried once by every new process: its key may have been corrected.
        self._probes = True
        #: No signal makes it send before this time: the target is down, or asked for a rest.
        self._rests_until_s = 0.0
        self._ending = asyncio.Event()
        signal.subscribe(OUTBOX, self)

    async def stop(self) -> None:
        """Finish what is being sent, give back the rest, and end."""
        self._ending.set()
        await super().stop()

    async def run_once(self) -> float:
        """Send a batch, then rest until something is due."""
        rest_s = self._rests_until_s - self._clock.monotonic()
        if rest_s > 0:
            return rest_s
        batch = self._settings.batch_limit
        result = await self._drainer.drain(
            self._target,
            DrainScope(limit=batch, batch=batch, probe=self._probes, quiet=True),
            stop=self._ending,
        )
        self._add(result)
        if result.processed or result.released:
            self._probes = False
        interval_s = self._settings.interval_s
        if result.rest_s is not None:
            rest_s = max(interval_s, result.rest_s)
            self._rests_until_s = self._clock.monotonic() + rest_s
            return rest_s
        if result.more:
            return 0.0
        topics = self._drainer.targets.topics_of(self._target)
        due_s = await self._drainer.store.next_due_s(self._target.name, topics)
        if result.stopped is not None or due_s is None:
            return interval_s
        return min(interval_s, due_s)

    def _add(self, result: DrainResult) -> None:
        totals = self.totals
        totals.sent += result.sent
        totals.failed += result.failed
        totals.dead += result.dead
        totals.released += result.released
        totals.stopped = result.stopped


def target_workers(
    rt: Runtime, drainer: Drainer, settings: OutboxSettings
) -> Sequence[TargetWorker]:
    """Return a worker for every target that needs no confirmation."""
    return [
        TargetWorker(drainer, target, settings, signal=rt.signal, clock=rt.clock)
        for target in drainer.targets.open_targets()
    ]
