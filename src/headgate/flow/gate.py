"""The gate: every request to a provider asks the budget here first.

A short wait is waited out on the spot; for a longer one the job is put off, so that it holds
nothing while it sleeps.

**While the limiter is away**, by the kind of work:

| work                       | what happens                                                    |
|----------------------------|-----------------------------------------------------------------|
| live, essential (metadata) | goes on, on a small share that each process counts for itself   |
| live, anything else        | stops; the job waits, nothing is burnt                          |
| backfill                   | stops; the job waits, nothing is burnt                          |

What was spent from the share is told to the limiter when it is back.
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
from headgate.base.redact import describe_error
from headgate.model.budget import Budget, BudgetRequest, BudgetUse, Exhausted, Granted, Unreachable
from headgate.model.job import Lane
from headgate.policy.spending import local_share, paced_limit
from headgate.ports.connector import Permit
from headgate.ports.limiter import Limiter

#: A wait up to this long is waited out; a longer one puts the job off. Well below the time that one
#: chunk may take.
WAIT_S_MAX = {Lane.HOT: 20.0, Lane.COLD: 15.0}
#: So long in line for the pace, and a wait is not waited out any more.
QUEUE_S_MAX = 45.0
#: While the limiter is away, work that must wait for it looks again after this.
LOOK_AGAIN = timedelta(seconds=30)

#: After a 429 from a provider that has no budget and does not say how long.
UNLIMITED_REST = timedelta(minutes=1)
#: One that asks for a longer wait than this is not believed.
UNLIMITED_REST_S_MAX = 86_400.0

_log = get_logger(__name__)


class BudgetGate:
    """The gates of one process: all of them before the same limiter."""

    def __init__(self, limiter: Limiter, local: Limiter, clock: Clock, ids: Ids) -> None:
        """Ask `limiter`; while it is away, essential live work asks `local`."""
        self._limiter = limiter
        self._local = local
        self._clock = clock
        self._ids = ids
        #: Sent while the limiter was away, and not yet told to it.
        self._owed: Counter[tuple[Budget, BudgetRequest]] = Counter()
        self._away = False
        #: Those who wait for their turn in backfill, by ledger; a line that nobody is in is gone.
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, budget: Budget | None, lane: Lane, connection_id: str) -> "JobGate":
        """The gate for a job's requests; without a budget it stands open."""
        return JobGate(self, budget, lane, connection_id)

    async def use(self, budget: Budget, *, connection_id: str | None = None) -> BudgetUse | None:
        """How a budget stands; None while the limiter is away."""
        try:
            return await self._limiter.use(budget, connection_id=connection_id)
        except Exception as error:
            _log.warning("limiter_away", error=describe_error(error))
            return None

    async def acquire(
        self, budget: Budget, request: BudgetRequest, *, essential: bool
    ) -> "SharedPermit":
        """Wait for a grant, or raise BudgetSpent or LimiterUnreachable."""
        wait_s_max = WAIT_S_MAX[request.lane]
        queue = self._queue_for(budget, request)
        if queue is None:
            return await self._acquire(budget, request, essential=essential, wait_s_max=wait_s_max)
        joined_s = self._clock.monotonic()
        async with queue:
            waited_s = self._clock.monotonic() - joined_s
            # Whoever stood in line for long is not kept any longer: one try.
            left_s = wait_s_max if waited_s <= QUEUE_S_MAX else 0.0
            return await self._acquire(budget, request, essential=essential, wait_s_max=left_s)

    def _queue_for(self, budget: Budget, request: BudgetRequest) -> asyncio.Lock | None:
        """Where paced work waits: first come, first served.

        Those who were told to wait would else all come back at the same moment, and the quickest
        would win every time.
        """
        limit = paced_limit(budget, request.kind) if request.lane is Lane.COLD else None
        if limit is None:
            return None
        key = budget.ledger_key(limit.scope, request.connection_id)
        return self._queues.setdefault(key, asyncio.Lock())

    async def _acquire(
        self, budget: Budget, request: BudgetRequest, *, essential: bool, wait_s_max: float
    ) -> "SharedPermit":
        give_up_at = self._clock.monotonic() + wait_s_max
        while True:
            answer = await self._limiter.acquire(budget, request, grant_id=self._ids.new("grant"))
            limiter = self._limiter
            if isinstance(answer, Unreachable):
                self._note_away(answer)
                if not (essential and request.lane is Lane.HOT):
                    raise LimiterUnreachable(LOOK_AGAIN, answer.error)
                limiter = self._local
                share = local_share(budget)
                answer = await limiter.acquire(share, request, grant_id=self._ids.new("grant"))
            elif self._away or self._owed:
                await self._note_back()
            if isinstance(answer, Granted):
                if limiter is self._local:
                    self._owed[budget, request] += 1
                    return LocalPermit(limiter, self._local, budget, request, answer)
                return SharedPermit(limiter, self._local, budget, request, answer)
            assert isinstance(answer, Exhausted)
            if self._clock.monotonic() + answer.wait_s > give_up_at:
                limit = f" ({answer.limit})" if answer.limit else ""
                raise BudgetSpent(
                    timedelta(seconds=answer.wait_s),
                    f"the budget of {budget.source} is {answer.reason.value}{limit}",
                )
            await self._clock.sleep(answer.wait_s)

    def _note_away(self, answer: Unreachable) -> None:
        if not self._away:
            self._away = True
            _log.warning("limiter_away", error=answer.error)

    async def _note_back(self) -> None:
        if self._away:
            self._away = False
            _log.info("limiter_back", owed=self._owed.total())
        while self._owed:
            (budget, request), times = self._owed.popitem()
            charged = False
            try:
                await self._limiter.charge(budget, request, times=times)
                charged = True
            except Exception as error:
                _log.warning("limiter_away", error=describe_error(error))
                return
            finally:
                # Also where the job was cut off meanwhile: better told twice than never.
                if not charged:
                    self._owed[budget, request] += times


class JobGate:
    """The gate as a source sees it."""

    def __init__(
        self, gates: BudgetGate, budget: Budget | None, lane: Lane, connection_id: str
    ) -> None:
        """Pass requests of this lane and connection."""
        self._gates = gates
        self._budget = budget
        self._lane = lane
        self._connection_id = connection_id
        #: What the last request left of the tightest window, where that is known.
        self.remaining: int | None = None

    def request(
        self, *, kind: str = "read", retry: bool = False, essential: bool = False
    ) -> AbstractAsyncContextManager[Permit]:
        """A place for one request, given back when it is over."""
        if self._budget is None:
            return nullcontext(UnlimitedPermit())
        request = BudgetRequest(
            lane=self._lane, connection_id=self._connection_id, kind=kind, retry=retry
        )
        return self._limited(self._budget, request, essential=essential)

    @asynccontextmanager
    async def _limited(
        self, budget: Budget, request: BudgetRequest, *, essential: bool
    ) -> AsyncIterator[Permit]:
        permit = await self._gates.acquire(budget, request, essential=essential)
        self.remaining = permit.remaining
        try:
            yield permit
        finally:
            await permit.release()


class SharedPermit:
    """A request that was granted."""

    def __init__(
        self,
        limiter: Limiter,
        local: Limiter,
        budget: Budget,
        request: BudgetRequest,
        grant: Granted,
    ) -> None:
        """Tell `limiter` what becomes of it; what it does not hear, `local` does."""
        self.remaining = grant.remaining
        self._limiter = limiter
        self._local = local
        self._budget = budget
        self._ask = request
        self._grant = grant

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """The provider's own counts; one that is not told is told by the next answer."""
        try:
            await self._limiter.observe(self._budget, self._ask, self._grant, counts)
        except Exception as error:
            _log.warning("counts_not_told", source=self._budget.source, error=describe_error(error))

    async def close_budget(self, retry_after_s: float | None = None) -> RateLimited:
        """The provider said 429; where nobody can be told, this process keeps to it alone."""
        budget, request = self._budget, self._ask
        try:
            closed = await self._limiter.close_budget(budget, request, retry_after_s=retry_after_s)
        except Exception as error:
            _log.warning("refusal_not_told", source=budget.source, error=describe_error(error))
            closed = await self._local.close_budget(budget, request, retry_after_s=retry_after_s)
        _log.warning("rate_limited", source=self._budget.source, until=closed.until.isoformat())
        after = timedelta(seconds=closed.wait_s)
        return RateLimited(after, f"{self._budget.source} refused the request (429)")

    async def release(self) -> None:
        """Give the slot back; one that is not given back is free after its lease."""
        try:
            await self._limiter.release(self._budget, self._ask, self._grant)
        except Exception as error:
            _log.warning(
                "slot_not_returned", source=self._budget.source, error=describe_error(error)
            )


class LocalPermit(SharedPermit):
    """A request that was granted from the share of this process, while the limiter is away."""

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """What everybody has used says nothing of the share, until it says that nothing is left."""
        limits = {limit.name: limit.amount for limit in self._budget.limits}
        spent = {name: count for name, count in counts.items() if count >= limits.get(name, count)}
        await super().observe_counts(spent)


class UnlimitedPermit:
    """A request to a provider that has no budget: nothing counts it, and nothing holds it back."""

    remaining: int | None = None

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """Nobody keeps count."""

    async def close_budget(self, retry_after_s: float | None = None) -> RateLimited:
        """This job waits; the others find out for themselves."""
        if retry_after_s is None:
            return RateLimited(UNLIMITED_REST)
        wait_s = min(max(retry_after_s, 0.0), UNLIMITED_REST_S_MAX)
        return RateLimited(timedelta(seconds=wait_s))
