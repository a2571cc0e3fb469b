"""The drain: the one function that sends what waits in the outbox to a target.

The send right after a commit, the background worker and the manual command all use it. Deliveries
are claimed in batches, sent by a few senders at once, and settled together, while the next batch is
claimed. A crash at any point repeats an attempt at most: the message's key is always the same.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import StoreFault
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.leases.claims import BEATS_PER_LEASE, LEASE, ActiveClaim, ActiveClaims
from headgate.flow.leases.rescue import rescue_expired
from headgate.flow.measurements import Measurements
from headgate.flow.outbox.attempts import AttemptSettler, DrainResult, ProgressCallback
from headgate.flow.outbox.drain_log import DrainLog
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.flow.outbox.targets import Targets
from headgate.model import delivery as change
from headgate.model.delivery import Delivery, SendFailure, SendOutcome, TargetRefusal
from headgate.model.states import DELIVERY
from headgate.model.target import Target
from headgate.policy import deliveries as policy
from headgate.policy.deliveries import RETRY_AFTER_S_MAX, DeliveryRetryPolicy
from headgate.ports.outbox import OutboxStore, OutgoingMessage, Sender

#: After so many failures in a row, or as many as are sent at once, or a whole batch of them, the
#: target is down.
FAILURES_MAX = 5

_log = get_logger(__name__)


class Drainer:
    """Sends deliveries in this process."""

    def __init__(
        self,
        *,
        store: OutboxStore,
        sender: Sender,
        targets: Targets,
        clock: Clock,
        rng: random.Random,
        worker: str,
        lease: timedelta = LEASE,
        retry: DeliveryRetryPolicy | None = None,
        measurements: Measurements | None = None,
        find_fault: Callable[[], StoreFault | None] = lambda: None,
    ) -> None:
        """Send as the worker called `worker`, which no other process is.

        `find_fault` tells what is wrong with the disk of the database.
        """
        self.store = store
        self.sender = sender
        self.targets = targets
        self.clock = clock
        self.rng = rng
        self.worker = worker
        self.retry = retry or DeliveryRetryPolicy()
        self.measurements = measurements or Measurements()
        self.find_fault = find_fault
        self.claims = ActiveClaims[Delivery](
            store, clock, lease=lease, measurements=self.measurements
        )
        #: By the name of the target; several drains of one share them.
        self._slots: dict[str, asyncio.Semaphore] = {}

    async def drain(
        self,
        target: Target,
        scope: DrainScope | None = None,
        *,
        progress: ProgressCallback = lambda result: None,
        stop: asyncio.Event | None = None,
    ) -> DrainResult:
        """Send what is due to the target; returns what happened.

        When `stop` is set, what is being sent is finished, and the rest is given back.
        """
        scope, drain_log = scope or DrainScope(), DrainLog(DrainResult(target=target.name))
        if not scope.quiet:
            drain_log.begin()
        try:
            await self._drain(target, scope, drain_log, progress, stop)
        finally:
            drain_log.end()
        return drain_log.result

    async def _drain(
        self,
        target: Target,
        scope: DrainScope,
        drain_log: DrainLog,
        progress: ProgressCallback,
        stop: asyncio.Event | None,
    ) -> None:
        result = drain_log.result
        await self.rescue()
        stops = {} if scope.by_hand else await self.store.stopped_targets()
        if target.name in stops:
            if scope.probe:
                limit = 1 if scope.limit is None else min(1, scope.limit)
                one = msgspec.structs.replace(scope, limit=limit)
                await _Run(self, target, one, drain_log, progress, stop).work()
                result.more = False
            # A rejected message shows as well that the target takes our key.
            if not (result.sent or result.dead):
                result.stopped = result.stopped or stops[target.name].reason
                return
            await self.store.resume_target(target.name)
            _log.info(LogEvent.TARGET_RESUMED, target=target.name)
            if scope.limit is not None:
                scope = msgspec.structs.replace(scope, limit=scope.limit - 1)
        await _Run(self, target, scope, drain_log, progress, stop).work()

    def with_sender(self, sender: Sender) -> "Drainer":
        """Another drainer of the same outbox and worker, which sends by `sender`."""
        return Drainer(
            store=self.store,
            sender=sender,
            targets=self.targets,
            clock=self.clock,
            rng=self.rng,
            worker=self.worker,
            lease=self.claims.lease,
            retry=self.retry,
            measurements=self.measurements,
            find_fault=self.find_fault,
        )

    def slots_of(self, target: Target) -> asyncio.Semaphore:
        """As many slots as the target takes requests at once from this process."""
        return self._slots.setdefault(target.name, asyncio.Semaphore(target.concurrency))

    async def rescue(self) -> int:
        """Take back the deliveries of lost workers; returns how many."""
        # Workers that cannot write cannot extend their leases either.
        counts = self.find_fault() is None
        rescued = await rescue_expired(
            self.store,
            lambda each: policy.rescue(each, self.retry, draw=self.rng.random(), counts=counts),
        )
        self.measurements.rescues.add(DELIVERY.name, rescued)
        return rescued


class _Run:
    """One drain of one target."""

    def __init__(
        self,
        drainer: Drainer,
        target: Target,
        scope: DrainScope,
        drain_log: DrainLog,
        progress: ProgressCallback,
        stop: asyncio.Event | None,
    ) -> None:
        self._stop = stop or asyncio.Event()
        self._drainer = drainer
        self._target = target
        self._scope = scope
        self._drain_log = drain_log
        self._result = drain_log.result
        self._left = scope.limit
        self._ready: deque[OutgoingMessage] = deque()
        #: The claim of the next batch, while it is under way.
        self._claiming: asyncio.Task[None] | None = None
        #: Whether nothing more is claimed: nothing is due, or the limit is reached.
        self._exhausted = False
        #: Whether nothing more is sent.
        self._ended = False
        self._failures = 0
        self._settler = AttemptSettler(
            drainer.store,
            drainer.claims,
            drainer.retry,
            drainer.rng,
            result=drain_log.result,
            progress=progress,
        )
        #: Why the store could not be used.
        self._error: Exception | None = None

    async def work(self) -> None:
        """Send until nothing is due, the limit is reached, or the target has to be left alone."""
        settling = asyncio.create_task(self._settler.run(), name="settle deliveries")
        beating = asyncio.create_task(self._extend_claims(), name="extend deliveries")
        senders = [
            asyncio.create_task(self._send_all(), name=f"send to {self._target.name}")
            for _ in range(self._target.concurrency)
        ]
        try:
            await asyncio.gather(*senders)
        except GeneratorExit:
            # The event loop is gone, and with it all that could be finished: leases expire.
            raise
        except BaseException:
            await self._wind_up(senders, settling, beating)
            raise
        await self._wind_up(senders, settling, beating)
        error = self._error or self._settler.error
        if error is not None:
            raise error

    async def _wind_up(
        self,
        senders: Sequence[asyncio.Task[None]],
        settling: asyncio.Task[None],
        beating: asyncio.Task[None],
    ) -> None:
        """Settle what was sent, and give back the rest; this drain may have been cancelled."""
        try:
            for task in senders:
                task.cancel()
            claiming = [] if self._claiming is None else [self._claiming]
            await asyncio.gather(*senders, *claiming, return_exceptions=True)
            self._settler.end()
            await settling
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            await self._release()
        finally:
            self._let_go()
            beating.cancel()

    def _let_go(self) -> None:
        """Leave to their leases the claims that a second cancellation kept from being released."""
        self._settler.abandon()
        for each in self._ready:
            self._drainer.claims.drop(each.delivery)

    # ---- claiming ------------------------------------------------------------------------------

    async def _next(self) -> OutgoingMessage | None:
        """The next delivery to send; None if there is none. Claims ahead of the senders."""
        while not self._is_over():
            if len(self._ready) * 2 <= self._scope.batch and not self._exhausted:
                if self._claiming is None:
                    self._claiming = asyncio.create_task(self._claim(), name="claim deliveries")
                if not self._ready:
                    await asyncio.shield(self._claiming)
                    continue
            if not self._ready:
                return None
            return self._ready.popleft()
        return None

    def _is_over(self) -> bool:
        return self._ended or self._stop.is_set() or self._settler.error is not None

    async def _claim(self) -> None:
        try:
            claimed, wanted = await self._claim_batch()
            if claimed:
                self._drain_log.begin()
            self._ready.extend(claimed)
            self._exhausted = len(claimed) < wanted
            if self._left is not None:
                self._left -= len(claimed)
                self._exhausted = self._exhausted or not self._left
                self._result.more = not self._left
        except Exception as error:
            self._error, self._exhausted = error, True
        finally:
            self._claiming = None

    async def _claim_batch(self) -> tuple[Sequence[OutgoingMessage], int]:
        drainer, scope = self._drainer, self._scope
        wanted = scope.batch if self._left is None else min(scope.batch, self._left)
        if not wanted:
            return (), 0
        began_s = drainer.clock.monotonic()
        claimed = await drainer.store.claim(
            self._target.name,
            drainer.targets.topics_of(self._target),
            limit=wanted,
            lease=drainer.claims.lease,
            worker=drainer.worker,
            run_id=scope.run_id,
            message_id=scope.message_id,
        )
        drainer.claims.add((ActiveClaim(each.delivery) for each in claimed), seen_s=began_s)
        return claimed, wanted

    async def _extend_claims(self) -> None:
        """Extend the claims while this drain runs: a batch may take longer than a lease."""
        drainer = self._drainer
        while True:
            await drainer.clock.sleep(drainer.claims.lease.total_seconds() / BEATS_PER_LEASE)
            try:
                await drainer.claims.extend()
            except Exception as error:
                # The next beat may succeed, and a sender checks a claim that may have expired.
                _log.warning(LogEvent.CLAIMS_NOT_EXTENDED, error=describe_error(error))

    async def _release(self) -> None:
        """Give back what was claimed and not sent; if that fails, the leases expire."""
        claims = self._drainer.claims
        unsent = [each.delivery for each in self._ready if claims.has(each.delivery)]
        self._ready.clear()
        for each in unsent:
            claims.drop(each)
        try:
            released = await self._drainer.store.settle_many(
                [(change.release(each), None) for each in unsent]
            )
        except Exception as error:
            _log.warning(
                LogEvent.DELIVERIES_NOT_RELEASED, count=len(unsent), error=describe_error(error)
            )
            return
        lost = sum(each is None for each in released)
        claims.count_lost(lost)
        self._result.released += len(released) - lost

    # ---- sending -------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        while True:
            async with self._drainer.slots_of(self._target):
                outgoing = await self._next()
                if outgoing is None:
                    return
                try:
                    await self._attempt(outgoing)
                except Exception as error:
                    # Only the store fails here. What others are sending is finished and settled.
                    self._error, self._ended = self._error or error, True

    async def _attempt(self, outgoing: OutgoingMessage) -> None:
        claims, delivery = self._drainer.claims, outgoing.delivery
        if claims.may_have_expired:
            try:
                await claims.extend()
            except BaseException:
                self._ready.appendleft(outgoing)
                raise
        if not claims.has(delivery):
            return
        try:
            outcome = await self._send(outgoing)
        except BaseException:
            # Whether it was sent is unknown: let the lease expire, and it is sent again.
            claims.drop(delivery)
            raise
        self._settler.add(delivery, outcome)
        await self._learn_from(outcome)

    async def _send(self, outgoing: OutgoingMessage) -> SendOutcome:
        drainer = self._drainer
        topic = drainer.targets.topic(outgoing.delivery.topic)
        try:
            return await drainer.sender.send(self._target, topic, outgoing.message)
        except Exception as error:
            # A fault of the sender's. Its text is not kept: it may quote what was sent.
            return SendFailure(f"the sender failed: {type(error).__name__}")

    async def _learn_from(self, outcome: SendOutcome) -> None:
        """Decide by one attempt whether the target gets more."""
        if not isinstance(outcome, SendFailure):
            self._failures = 0
        if isinstance(outcome, TargetRefusal) and self._result.stopped is None:
            self._ended = True
            self._result.stopped = outcome.reason
            if not self._scope.by_hand:
                _log.error(LogEvent.TARGET_STOPPED, target=self._target.name, reason=outcome.reason)
                await self._drainer.store.stop_target(self._target.name, outcome.reason)
        elif isinstance(outcome, SendFailure):
            self._failures += 1
            most = max(FAILURES_MAX, self._target.concurrency)
            # A worker with small batches never sees as many in one drain.
            down = self._failures >= min(most, self._scope.batch)
            if outcome.retry_after_s is not None or down:
                self._ended = True
                asked_s = min(outcome.retry_after_s or 0.0, RETRY_AFTER_S_MAX)
                self._result.rest_s = max(self._result.rest_s or 0.0, asked_s)
