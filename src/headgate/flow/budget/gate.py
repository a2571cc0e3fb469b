"""The gate: every request to a provider first asks the budget here.

The gate waits out a short wait itself, and that for a window whose use the limiter has lost. For a
longer wait it defers the job, so that the job has no claim while it sleeps.

**While the limiter is unreachable**, it depends on the kind of work:

| work                       | what happens                                                     |
|----------------------------|------------------------------------------------------------------|
| live, essential (metadata) | goes on with a small local share that each process counts itself |
| live, anything else        | stops; the job waits, and no attempt is counted                  |
| backfill                   | stops; the job waits, and no attempt is counted                  |

When the limiter is back, the requests from the local share are charged to it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import timedelta
from weakref import WeakValueDictionary

from headgate.base.clock import Clock
from headgate.base.errors import BudgetSpent, LimiterUnreachable, RateLimited
from headgate.base.ids import Ids
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.estimate.effort import ProviderTime
from headgate.model.budget import (
    Budget,
    BudgetRequest,
    BudgetUse,
    Exhausted,
    Granted,
    RefusalReason,
    Unreachable,
)
from headgate.model.job import Lane
from headgate.policy.in_flight import send_within_s
from headgate.policy.spending import local_share, paced_limit
from headgate.ports.http import Permit
from headgate.ports.limiter import Limiter

#: The longest wait that the gate waits out itself; a longer one defers the job. It is well below
#: the time that one chunk may take.
WAIT_S_MAX = {Lane.HOT: 20.0, Lane.COLD: 15.0}
#: A request that was in the queue of paced work for longer than this does not wait any more.
QUEUE_S_MAX = 45.0
#: After so many grants in a row that came too late to be used, the job tries again later.
LATE_MAX = 3
#: While the limiter is unreachable, a job that needs it tries again after this time.
LOOK_AGAIN = timedelta(seconds=30)

#: The wait after a 429 from a provider without a budget that does not say how long to wait.
UNLIMITED_REST = timedelta(minutes=1)
#: The longest wait that we accept from such a provider.
UNLIMITED_REST_S_MAX = 86_400.0

_log = get_logger(__name__)


class BudgetGate:
    """The gate of one process, which asks the limiter for all of its jobs."""

    def __init__(self, limiter: Limiter, local: Limiter, clock: Clock, ids: Ids) -> None:
        """Ask `limiter`; while it is unreachable, essential live work asks `local`."""
        self._limiter = limiter
        self._local = local
        self.clock = clock
        self._ids = ids
        #: Requests that were sent while the limiter was unreachable and are not charged to it yet.
        self._owed: Counter[tuple[Budget, BudgetRequest]] = Counter()
        self._away = False
        #: When a request last waited for a window whose use the limiter had lost.
        self._known_since_s = float("-inf")
        #: The queues of paced requests, by ledger; an empty queue is dropped.
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(
        self,
        budget: Budget | None,
        lane: Lane,
        connection_id: str,
        time: ProviderTime | None = None,
    ) -> "JobGate":
        """The gate for a job's requests; without a budget it grants every request.

        `time` counts the requests and measures their waits.
        """
        return JobGate(self, budget, lane, connection_id, time or ProviderTime(self.clock))

    async def use(self, budget: Budget, *, connection_id: str | None = None) -> BudgetUse | None:
        """The use of a budget; None while the limiter is unreachable."""
        try:
            return await self._limiter.use(budget, connection_id=connection_id)
        except Exception as error:
            _log.warning(LogEvent.LIMITER_AWAY, error=describe_error(error))
            return None

    async def acquire(
        self, budget: Budget, request: BudgetRequest, *, essential: bool
    ) -> "SharedPermit":
        """Wait for a grant, or raise BudgetSpent or LimiterUnreachable."""
        wait_s_max = WAIT_S_MAX[request.lane]
        queue = self._queue_for(budget, request)
        if queue is None:
            return await self._acquire(budget, request, essential=essential, wait_s_max=wait_s_max)
        joined_s = self.clock.monotonic()
        async with queue:
            # While the limiter had lost its counts, everybody waited, whatever the queue.
            waited_s = self.clock.monotonic() - max(joined_s, self._known_since_s)
            # A request that was in the queue for long gets one try, without a wait.
            left_s = wait_s_max if waited_s <= QUEUE_S_MAX else 0.0
            return await self._acquire(budget, request, essential=essential, wait_s_max=left_s)

    def _queue_for(self, budget: Budget, request: BudgetRequest) -> asyncio.Lock | None:
        """The queue in which paced requests wait, first come, first served; None: no queue.

        Without it, all waiting requests would come back at the same moment, and the fastest would
        win every time.
        """
        limit = paced_limit(budget, request.kind) if request.lane is Lane.COLD else None
        if limit is None:
            return None
        key = budget.ledger_key(limit.scope, request.connection_id)
        return self._queues.setdefault(key, asyncio.Lock())

    async def _acquire(
        self, budget: Budget, request: BudgetRequest, *, essential: bool, wait_s_max: float
    ) -> "SharedPermit":
        give_up_at = self.clock.monotonic() + wait_s_max
        late = 0
        while True:
            asked_s = self.clock.monotonic()
            limiter, answer = await self._ask(budget, request, essential=essential)
            if isinstance(answer, Granted):
                kind = LocalPermit if limiter is self._local else SharedPermit
                permit = kind((limiter, self._local), self.clock, budget, request, answer, asked_s)
                if permit.send_within_s > 0:
                    return permit
                # The process or the limiter stalled, and the window of the grant may be over: the
                # grant stays spent, and is not used.
                await permit.release()
                late += 1
                if late == LATE_MAX:
                    raise LimiterUnreachable(LOOK_AGAIN, "its grants come too late to be used")
            elif answer.reason is RefusalReason.UNKNOWN:
                # Waited out here, however long: only short windows are ever unknown, and to defer
                # the job would throw away what the chunk has read so far.
                await self.clock.sleep(answer.wait_s)
                self._known_since_s = self.clock.monotonic()
                give_up_at = self._known_since_s + wait_s_max
            elif self.clock.monotonic() + answer.wait_s > give_up_at:
                limit = f" ({answer.limit})" if answer.limit else ""
                raise BudgetSpent(
                    timedelta(seconds=answer.wait_s),
                    f"the budget of {budget.source} is {answer.reason.value}{limit}",
                )
            else:
                await self.clock.sleep(answer.wait_s)

    async def _ask(
        self, budget: Budget, request: BudgetRequest, *, essential: bool
    ) -> tuple[Limiter, Granted | Exhausted]:
        """Ask the limiter once or, while it is unreachable, this process's share."""
        answer = await self._limiter.acquire(budget, request, grant_id=self._ids.new("grant"))
        if not isinstance(answer, Unreachable):
            if self._away or self._owed:
                await self._note_back()
            return self._limiter, answer
        self._note_away(answer)
        if not (essential and request.lane is Lane.HOT):
            raise LimiterUnreachable(LOOK_AGAIN, answer.error)
        share = local_share(budget)
        answer = await self._local.acquire(share, request, grant_id=self._ids.new("grant"))
        assert not isinstance(answer, Unreachable), "it is in this process"
        if isinstance(answer, Granted):
            self._owed[budget, request] += 1
        return self._local, answer

    def _note_away(self, answer: Unreachable) -> None:
        if not self._away:
            self._away = True
            _log.warning(LogEvent.LIMITER_AWAY, error=answer.error)

    async def _note_back(self) -> None:
        if self._away:
            self._away = False
            _log.info(LogEvent.LIMITER_BACK, owed=self._owed.total())
        while self._owed:
            (budget, request), times = self._owed.popitem()
            charged = False
            try:
                await self._limiter.charge(budget, request, times=times)
                charged = True
            except Exception as error:
                _log.warning(LogEvent.LIMITER_AWAY, error=describe_error(error))
                return
            finally:
                # Also if the job was interrupted meanwhile: better charged twice than never.
                if not charged:
                    self._owed[budget, request] += times


class JobGate:
    """The gate for the requests of one job."""

    def __init__(
        self,
        gates: BudgetGate,
        budget: Budget | None,
        lane: Lane,
        connection_id: str,
        time: ProviderTime,
    ) -> None:
        """Ask for requests of this lane and connection, and measure in `time`."""
        self._gates = gates
        self._budget = budget
        self._lane = lane
        self._connection_id = connection_id
        self._time = time
        #: What is left of the tightest window after the last request, if known.
        self.remaining: int | None = None

    def request(
        self, *, kind: str = "read", retry: bool = False, essential: bool = False
    ) -> AbstractAsyncContextManager[Permit]:
        """A permit for one request; its slot is released at the end of the block."""
        if self._budget is None:
            self._time.grant(kind, asked_s=self._gates.clock.monotonic())
            return nullcontext(UnlimitedPermit())
        request = BudgetRequest(
            lane=self._lane, connection_id=self._connection_id, kind=kind, retry=retry
        )
        return self._limited(self._budget, request, essential=essential)

    @asynccontextmanager
    async def _limited(
        self, budget: Budget, request: BudgetRequest, *, essential: bool
    ) -> AsyncIterator[Permit]:
        asked_s = self._gates.clock.monotonic()
        try:
            permit = await self._gates.acquire(budget, request, essential=essential)
        except BudgetSpent:
            self._time.refuse(asked_s=asked_s)
            raise
        self._time.grant(request.kind, asked_s=asked_s)
        self.remaining = permit.remaining
        try:
            yield permit
        finally:
            await permit.release()


class SharedPermit:
    """The permit for a request that a limiter granted."""

    def __init__(
        self,
        limiters: tuple[Limiter, Limiter],
        clock: Clock,
        budget: Budget,
        request: BudgetRequest,
        grant: Granted,
        asked_s: float,
    ) -> None:
        """Report to the first limiter; a 429 that cannot be reported there goes to the second.

        The request was granted at the monotonic time `asked_s` or later.
        """
        self.remaining = grant.remaining
        self._limiter, self._local = limiters
        self._clock = clock
        self._asked_s = asked_s
        self._budget = budget
        self._ask = request
        self._grant = grant

    @property
    def send_within_s(self) -> float:
        """The seconds in which the request must be sent from now on; 0 or less: too late."""
        allowed_s = send_within_s(self._budget, self._ask.kind, self._grant.at_ms)
        return self._asked_s + allowed_s - self._clock.monotonic()

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """Report the provider's own counts; if that fails, the next answer has them again."""
        try:
            await self._limiter.observe(self._budget, self._ask, self._grant, counts)
        except Exception as error:
            _log.warning(
                LogEvent.COUNTS_NOT_TOLD, source=self._budget.source, error=describe_error(error)
            )

    async def close_budget(
        self, retry_after_s: float | None = None, limit: str | None = None
    ) -> RateLimited:
        """Close the budget after a 429; if the limiter is unreachable, only for this process."""
        budget, request = self._budget, self._ask
        try:
            closed = await self._limiter.close_budget(
                budget, request, retry_after_s=retry_after_s, limit=limit
            )
        except Exception as error:
            _log.warning(
                LogEvent.REFUSAL_NOT_TOLD, source=budget.source, error=describe_error(error)
            )
            closed = await self._local.close_budget(
                budget, request, retry_after_s=retry_after_s, limit=limit
            )
        _log.warning(
            LogEvent.RATE_LIMITED, source=self._budget.source, until=closed.until.isoformat()
        )
        after = timedelta(seconds=closed.wait_s)
        return RateLimited(after, f"{self._budget.source} refused the request (429)")

    async def release(self) -> None:
        """Release the slot; if that fails, it is free after its lease."""
        late = self._clock.monotonic() - self._asked_s > self._budget.guard_s
        if self._budget.slots is None and not late:
            return
        try:
            await self._limiter.release(self._budget, self._ask, self._grant)
        except Exception as error:
            _log.warning(
                LogEvent.SLOT_NOT_RETURNED, source=self._budget.source, error=describe_error(error)
            )


class LocalPermit(SharedPermit):
    """The permit for a request from this process's share, while the limiter is unreachable."""

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """Report only counts that have reached their limit.

        The provider counts the requests of all processes, so any other count does not show how much
        of the local share is left.
        """
        limits = {limit.name: limit.amount for limit in self._budget.limits}
        spent = {name: count for name, count in counts.items() if count >= limits.get(name, count)}
        await super().observe_counts(spent)


class UnlimitedPermit:
    """The permit for a request to a provider without a budget; nothing counts or delays it."""

    remaining: int | None = None
    send_within_s = float("inf")

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """Ignore the counts, because there is no budget."""

    async def close_budget(
        self, retry_after_s: float | None = None, limit: str | None = None
    ) -> RateLimited:
        """The error that makes this job wait; other jobs are not affected."""
        if retry_after_s is None:
            return RateLimited(UNLIMITED_REST)
        wait_s = min(max(retry_after_s, 0.0), UNLIMITED_REST_S_MAX)
        return RateLimited(timedelta(seconds=wait_s))
