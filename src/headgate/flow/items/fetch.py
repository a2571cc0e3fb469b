"""Fetching of items one by one: claim, fetch, settle. No item stays claimed while a job sleeps.

An error that concerns one item is settled with it, and the batch goes on. A batch ends early if the
other items would get the same error: the budget is spent, the credentials are refused, the provider
is down. Then the items that were not tried are released first. If something was fetched before, the
error goes into the chunk, which commits that first; otherwise it is raised, and the job waits or
fails.

A job waits for the items that other workers have claimed until those claims end, so it does not end
early even if those workers die.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

from headgate.base.clock import Clock
from headgate.base.errors import Conflict, ConnectorBug, Malformed, StoreUnavailable
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.items.progress import count_progress
from headgate.flow.leases.claims import LEASE, ActiveClaim, ActiveClaims
from headgate.flow.leases.settle import settle_surely
from headgate.flow.measurements import Measurements
from headgate.flow.registry import Collection
from headgate.flow.step.connector_bug import classify, log_bug
from headgate.model import item as change
from headgate.model.item import Document, Item, ItemChange
from headgate.model.job import Job, Lane, Progress
from headgate.model.lease import AT_ONCE
from headgate.model.states import ITEM, ItemState
from headgate.policy import items as policy
from headgate.policy.items import (
    DeferItem,
    GiveBack,
    GiveUp,
    ItemRetryPolicy,
    RetryItem,
    Unavailable,
)
from headgate.ports.connector import Context, Fetch
from headgate.ports.items import FetchAttempt, FetchedItems, ItemStore, NewItem, RegisterResult

#: Items in one chunk, unless the source says otherwise. A worker that dies loses all of them, and
#: each counts a crash.
BATCH = 10
#: The longest and the shortest wait between two checks for due items.
LOOK, LOOK_MIN = timedelta(minutes=15), timedelta(seconds=5)
#: Others may change an item between the read and the write; then it is read again, so many times.
CHANGE_TRIES_MAX = 5

_log = get_logger(__name__)

#: The declared collections, by name.
Collections = Mapping[str, Collection]
NO_COLLECTIONS: Collections = {}


class ItemFetcher:
    """Everything that the fetching of items needs; a process has one."""

    def __init__(
        self,
        *,
        items: ItemStore,
        clock: Clock,
        worker: str,
        lease: timedelta = LEASE,
        collections: Collections = NO_COLLECTIONS,
        measurements: Measurements | None = None,
    ) -> None:
        """Fetch `items` as `worker`, a name that no other process has."""
        self.items = items
        self.clock = clock
        self.worker = worker
        self.lease = lease
        self.collections = collections
        self.measurements = measurements or Measurements()
        self.claims = ActiveClaims(items, clock, lease=lease, measurements=self.measurements)

    def add(self, items: Iterable[Item], *, seen_s: float) -> None:
        """Add items that were claimed at the monotonic time `seen_s`."""
        self.claims.add([ActiveClaim(item) for item in items], seen_s=seen_s)


async def fetch_due(
    fetching: ItemFetcher,
    ctx: Context,
    fetch: Fetch,
    *,
    collection: str,
    connection_id: str,
    limit: int,
    lane: Lane | None = None,
) -> FetchedItems:
    """Fetch the connection's next due items, of one lane or of both."""
    items = fetching.items
    began_s = fetching.clock.monotonic()
    claimed = await items.claim(
        collection,
        connection_id,
        limit=limit,
        lease=fetching.lease,
        worker=fetching.worker,
        lane=lane,
    )
    fetching.add(claimed, seen_s=began_s)
    done, error = await _fetch_all(fetching, ctx, fetch, claimed)
    if error is not None and not any(item.state in ITEM.terminal for item in done):
        raise error
    if error is not None or len(claimed) == limit:
        # A batch that was full or ended early may have left due items.
        return FetchedItems(items=done, wait=AT_ONCE, error=error)
    due_s = await items.next_due_s(collection, connection_id, lane=lane)
    if due_s is None:
        return FetchedItems(items=done, wait=None)
    wait = min(timedelta(seconds=due_s), LOOK)
    # An item that is due but could not be claimed belongs to another worker: wait a little.
    return FetchedItems(items=done, wait=wait if claimed else max(wait, LOOK_MIN))


async def _fetch_all(
    fetching: ItemFetcher, ctx: Context, fetch: Fetch, claimed: Sequence[Item]
) -> tuple[Sequence[Item], Exception | None]:
    """Fetch these items; returns them after their attempts, and the error that ended the batch."""
    waiting = deque(claimed)
    done: list[Item] = []
    transients = 0
    try:
        while waiting:
            error = None
            # A worker that was frozen must not fetch an item that another worker has by now.
            if fetching.claims.may_have_expired:
                await fetching.claims.extend()
            if fetching.claims.has(waiting[0]):
                after, error = await _fetch_one(fetching, ctx, fetch, waiting[0])
                if after is not None:
                    done.append(after)
                else:
                    await fetching.claims.extend()
            waiting.popleft()
            transients = transients + 1 if error and policy.is_transient(error) else 0
            if error is not None and policy.ends_batch(error, transients):
                return done, error
    finally:
        await _release_untried(fetching, waiting)
    return done, None


async def _fetch_one(
    fetching: ItemFetcher, ctx: Context, fetch: Fetch, item: Item
) -> tuple[Item | None, Exception | None]:
    """Try one item; returns it after the attempt (None: the claim was lost), and the error."""
    began_s = fetching.clock.monotonic()
    document, error = await _call_fetch(ctx, fetch, item)
    try:
        after = await settle_surely(
            fetching.items, fetching.clock, _change(fetching, item, error), document
        )
    except StoreUnavailable:
        raise
    except Exception as refused:
        # A document that the store refuses counts as a failed fetch.
        document, error = None, classify(refused)
        after = await settle_surely(fetching.items, fetching.clock, _change(fetching, item, error))
    if isinstance(error, ConnectorBug):
        log_bug(error, of=item.collection, item=item.id)
        fetching.measurements.connector_bugs.add(ctx.sync)
    _drop_claim(fetching, item, after)
    attempt = FetchAttempt(
        item=item,
        after=after,
        document=document,
        error=error,
        duration_s=fetching.clock.monotonic() - began_s,
        budget_remaining=ctx.gate.remaining,
    )
    _report_attempt(fetching.collections.get(item.collection), attempt)
    return after, error


def _drop_claim(fetching: ItemFetcher, item: Item, after: Item | None) -> None:
    """Drop the claim, and count a lost claim or a retry."""
    if after is None:
        fetching.claims.lose(item)
        return
    fetching.claims.drop(item)
    failed = after.state is ItemState.FAILED
    fetching.measurements.add_item(failed=failed)
    if failed and not after.stuck:
        fetching.measurements.item_retries.add(item.collection)


async def _call_fetch(
    ctx: Context, fetch: Fetch, item: Item
) -> tuple[Document, None] | tuple[None, Exception]:
    try:
        document = await fetch(ctx, item)
        if not isinstance(document, Document):
            raise Malformed(f"fetching returned {type(document).__name__}, not a Document")
    except Exception as error:
        return None, classify(error)
    return document, None


def _change(fetching: ItemFetcher, item: Item, error: Exception | None) -> ItemChange:
    if error is None:
        return change.succeed(item)
    message = describe_error(error)
    known = fetching.collections.get(item.collection)
    decision = policy.decide(item, error, ItemRetryPolicy() if known is None else known.retry)
    match decision:
        case RetryItem(after):
            return change.fail(item, error=message, after=after)
        case DeferItem(after, limited, counts):
            return change.defer(item, after=after, error=message, limited=limited, counts=counts)
        case GiveUp(limited):
            return change.give_up(item, error=message, limited=limited)
        case Unavailable():
            return change.find_nothing(item, reason=message)
        case GiveBack():
            return change.release(item)
        case _:
            assert_never(decision)


async def _release_untried(fetching: ItemFetcher, waiting: Iterable[Item]) -> None:
    """Release the items that were not tried; if that fails, their leases expire."""
    untried = [item for item in waiting if fetching.claims.has(item)]
    for item in untried:
        fetching.claims.drop(item)
    if not untried:
        return
    try:
        released = await fetching.items.settle_many(
            [(change.release(item), None) for item in untried]
        )
        fetching.claims.count_lost(sum(item is None for item in released))
    except Exception as error:
        _log.warning(LogEvent.ITEMS_NOT_RETURNED, count=len(untried), error=describe_error(error))


def _report_attempt(collection: Collection | None, attempt: FetchAttempt) -> None:
    """Log one event per attempt, and call the collection's `on_attempt`."""
    item, after, error = attempt.item, attempt.after, attempt.error
    _log.debug(
        LogEvent.ITEM_FETCH,
        item=item.id,
        collection=item.collection,
        user=item.user_id,
        state=after.state.value if after else "lost",
        error=describe_error(error) if error else None,
        retry_count=after.retry_count if after else item.retry_count,
        duration_ms=round(attempt.duration_s * 1000, 1),
        rate_budget_remaining=attempt.budget_remaining,
    )
    if after is not None and after.state is ItemState.FAILED:
        again = after.next_attempt_at
        _log.warning(
            LogEvent.ITEM_NOT_FETCHED,
            item=item.id,
            collection=item.collection,
            user=item.user_id,
            error=after.error,
            retry_count=after.retry_count,
            again_at=None if again is None else again.isoformat(),
        )
    if collection is not None and collection.on_attempt is not None:
        collection.on_attempt(attempt)


class JobItems:
    """The items of one job's connection, for its source."""

    def __init__(self, fetching: ItemFetcher, job: Job) -> None:
        """Use the items of the connection of `job`."""
        self._fetching = fetching
        self._job = job

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Register items to fetch."""
        return await self._fetching.items.register(found)

    async def fetch_due(
        self,
        ctx: Context,
        collection: str,
        fetch: Fetch,
        *,
        limit: int = BATCH,
        lane: Lane | None = None,
    ) -> FetchedItems:
        """Fetch the connection's next due items."""
        return await fetch_due(
            self._fetching,
            ctx,
            fetch,
            collection=collection,
            connection_id=self._job.connection_id,
            limit=limit,
            lane=lane,
        )

    async def progress(
        self, *collections: str, lane: Lane | None = None, of_job: bool = False
    ) -> Progress:
        """How many of the connection's items are done, the total, and the number in each state."""
        return await count_progress(
            self._fetching.items,
            collections,
            self._job.connection_id,
            lane=lane,
            since=self._job.created_at if of_job else None,
        )


# ---- for operators -----------------------------------------------------------------------------


async def reset_item(items: ItemStore, item_id: str, *, after: timedelta = AT_ONCE) -> Item:
    """Reset an item, so that it is fetched at once or after a while; any claim on it ends."""
    for _ in range(CHANGE_TRIES_MAX):
        reset = await items.settle(change.reset(await items.get(item_id), after=after))
        if reset is not None:
            return reset
    raise Conflict(f"others keep changing the item {item_id!r}; try again")
