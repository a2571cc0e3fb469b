"""The settling of attempts to send: as many together as there are, and what a drain did in all."""

import asyncio
import random
from collections.abc import Callable

import msgspec

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.flow.leases.claims import ActiveClaims
from headgate.flow.leases.settle import settle_surely
from headgate.model.delivery import Delivery, DeliveryChange, SendFailure, SendOutcome
from headgate.model.states import DeliveryEdge
from headgate.policy import deliveries as policy
from headgate.policy.deliveries import DeliveryRetryPolicy
from headgate.ports.outbox import OutboxStore

#: Attempts that end within this time are settled together, unless there are so many of them.
WAIT_S = 0.02
TOGETHER = 200

_log = get_logger(__name__)


class DrainResult(msgspec.Struct, kw_only=True):
    """What a drain did."""

    target: str
    sent: int = 0
    failed: int = 0
    dead: int = 0
    #: Given back unsent.
    released: int = 0
    #: Why the target gets nothing more until somebody corrects it.
    stopped: str | None = None
    #: For how long the target should be left alone: it is down, or asked for it.
    rest_s: float | None = None
    #: Whether there may be more: the limit was reached.
    more: bool = False

    @property
    def processed(self) -> int:
        """How many deliveries were attempted."""
        return self.sent + self.failed + self.dead


#: Is told the counts so far, whenever attempts were settled.
ProgressCallback = Callable[[DrainResult], None]


class AttemptSettler:
    """Settles the attempts of one drain, and counts them."""

    def __init__(
        self,
        store: OutboxStore,
        claims: ActiveClaims[Delivery],
        retry: DeliveryRetryPolicy,
        rng: random.Random,
        *,
        result: DrainResult,
        progress: ProgressCallback,
    ) -> None:
        """Count in `result`."""
        self._store = store
        self._claims = claims
        self._retry = retry
        self._rng = rng
        self._result = result
        self._progress = progress
        #: The first thing that went wrong.
        self.error: Exception | None = None
        self._attempts: list[tuple[Delivery, SendOutcome]] = []
        #: Set when there are attempts, or when no more will come.
        self._changed = asyncio.Event()
        #: Set when there are so many that they are settled at once, or when no more will come.
        self._urgent = asyncio.Event()
        self._ended = False

    def add(self, delivery: Delivery, outcome: SendOutcome) -> None:
        """Have an attempt settled."""
        self._attempts.append((delivery, outcome))
        self._changed.set()
        if len(self._attempts) >= TOGETHER:
            self._urgent.set()

    def end(self) -> None:
        """Let `run` return when all attempts are settled."""
        self._ended = True
        self._changed.set()
        self._urgent.set()

    async def run(self) -> None:
        """Settle attempts as they come, until `end` is called."""
        while self._attempts or not self._ended:
            await self._changed.wait()
            await self._wait_for_more()
            self._changed.clear()
            attempts, self._attempts = self._attempts, []
            if not attempts:
                continue
            try:
                await self._settle(attempts)
            except Exception as error:
                self._keep(error)
            finally:
                # If one could not be settled, nobody knows that it was sent: its lease expires, and
                # it is sent again.
                self._drop(attempts)

    async def _wait_for_more(self) -> None:
        """Wait a moment for more attempts: a write costs as much for one as for many."""
        waits = [
            asyncio.ensure_future(self._claims.clock.sleep(WAIT_S)),
            asyncio.ensure_future(self._urgent.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if not self._ended:
            self._urgent.clear()

    def abandon(self) -> None:
        """Leave to their leases the attempts that are not settled."""
        self._drop(self._attempts)
        self._attempts = []

    def _drop(self, attempts: list[tuple[Delivery, SendOutcome]]) -> None:
        for delivery, _ in attempts:
            self._claims.drop(delivery)

    def _keep(self, error: Exception) -> None:
        self.error = self.error or error

    async def _settle(self, attempts: list[tuple[Delivery, SendOutcome]]) -> None:
        made = [
            policy.settle_attempt(delivery, outcome, self._retry, draw=self._draw(outcome))
            for delivery, outcome in attempts
        ]
        try:
            settled = await self._store.settle_many([(each, None) for each in made])
            for each, after in zip(made, settled, strict=True):
                self._count(each, after)
        except Exception:
            # Either all are written and only the answer was lost, or none is.
            await asyncio.gather(*(self._settle_alone(each) for each in made))
        self._progress(self._result)

    def _draw(self, outcome: SendOutcome) -> float:
        """A random number where one is needed: the system's randomness takes its time."""
        return self._rng.random() if isinstance(outcome, SendFailure) else 0.0

    async def _settle_alone(self, made: DeliveryChange) -> None:
        try:
            after = await settle_surely(self._store, self._claims.clock, made, uncertain=True)
        except Exception as error:
            self._keep(error)
        else:
            self._count(made, after)

    def _count(self, made: DeliveryChange, after: Delivery | None) -> None:
        result = self._result
        if after is None:
            self._claims.lose(made.before)
            return
        match made.edge.name:
            case DeliveryEdge.SUCCEED:
                result.sent += 1
                return
            case DeliveryEdge.FAIL:
                result.failed += 1
            case DeliveryEdge.REJECT:
                result.dead += 1
            case _:
                # Its error is that of an earlier attempt; why it came back is told of the target.
                result.released += 1
                return
        _log.warning(
            LogEvent.NOT_DELIVERED,
            delivery=after.id,
            target=after.target,
            state=after.state.value,
            attempts=after.attempts,
            error=after.error,
        )
