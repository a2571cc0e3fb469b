"""Fetching items one by one: claim, fetch, settle; and nothing is held while somebody sleeps.

A batch ends early where the items after it would only meet the same: the budget is spent, the
credentials are refused, the provider is down. Then what was not tried is given back first. Where
something was fetched before that, the error is handed to the chunk, which commits what it has
achieved; else it is raised, for the job to wait or to end by. An error that concerns one item alone
is settled with it, and the batch goes on.

A job knows that nothing is left for it although workers die: an item in the hands of another
worker, alive or lost, is waited for until its claim ends.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

from headgate.base.clock import Clock
from headgate.base.errors import Conflict, Malformed, StoreUnavailable
from headgate.base.log import get_logger
from headgate.base.redact import describe_error
from headgate.flow.claims import LEASE, ActiveClaim, ActiveClaims
from headgate.flow.measurements import Measurements
from headgate.flow.registry import Collection
from headgate.flow.settle import settle_surely
from headgate.model import item as change
from headgate.model.item import Document, Item, ItemChange
from headgate.model.job import Job, Lane, Progress
from headgate.model.lease import NOW
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
#: each counts it.
BATCH = 10
#: What has to wait for longer than this is looked at meanwhile: others may bring more.
LOOK, LOOK_MIN = timedelta(minutes=15), timedelta(seconds=5)
#: Others may change an item between the look and the write: look again so often.
CHANGE_TRIES_MAX = 5

_log = get_logger(__name__)

#: What is declared, by name.
Collections = Mapping[str, Collection]
NO_COLLECTIONS: Collections = {}


class ItemFetcher:
    """What fetching needs at hand: one for each process."""

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
        """Keep what was claimed then."""
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
    """The connection's next due items, those of one lane or of both."""
    items = fetching.items
    began_s = fetching.clock.monotonic()
    taken = await items.claim(
        collection,
        connection_id,
        limit=limit,
        lease=fetching.lease,
        worker=fetching.worker,
        lane=lane,
    )
    fetching.add(taken, seen_s=began_s)
    done, error = await _fetch_all(fetching, ctx, fetch, taken)
    if error is not None and not any(item.state in ITEM.terminal for item in done):
        raise error
    if error is not None or len(taken) == limit:
        # Who is cut short does not know what is left.
        return FetchedItems(items=done, wait=NOW, error=error)
    due_s = await items.next_due_s(collection, connection_id, lane=lane)
    if due_s is None:
        return FetchedItems(items=done, wait=None)
    wait = min(timedelta(seconds=due_s), LOOK)
    # What is due and was not to be had is in another's hands, or was until just now.
    return FetchedItems(items=done, wait=wait if taken else max(wait, LOOK_MIN))


async def _fetch_all(
    fetching: ItemFetcher, ctx: Context, fetch: Fetch, taken: Sequence[Item]
) -> tuple[Sequence[Item], Exception | None]:
    """The items as they were left, and what ended the batch early, if anything did."""
    waiting = deque(taken)
    done: list[Item] = []
    transients = 0
    try:
        while waiting:
            error = None
            # A worker that stood still must not ask for what is another's by now.
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
        await _give_back(fetching, waiting)
    return done, None


async def _fetch_one(
    fetching: ItemFetcher, ctx: Context, fetch: Fetch, item: Item
) -> tuple[Item | None, Exception | None]:
    """One attempt: the item as it was left, if its claim held, and what went wrong, if anything."""
    began_s = fetching.clock.monotonic()
    document, error = await _ask(ctx, fetch, item)
    try:
        after = await settle_surely(
            fetching.items, fetching.clock, _change(fetching, item, error), document
        )
    except StoreUnavailable:
        raise
    except Exception as refused:
        # What the store does not take is malformed like any other answer.
        document, error = None, refused
        after = await settle_surely(fetching.items, fetching.clock, _change(fetching, item, error))
    _let_go(fetching, item, after)
    attempt = FetchAttempt(
        item=item,
        after=after,
        document=document,
        error=error,
        duration_s=fetching.clock.monotonic() - began_s,
        # What the last request through this gate left, where it counts.
        budget_remaining=getattr(ctx.gate, "remaining", None),
    )
    _tell(fetching.collections.get(item.collection), attempt)
    return after, error


def _let_go(fetching: ItemFetcher, item: Item, after: Item | None) -> None:
    """Keep the claim no longer, and measure what became of the item."""
    if after is None:
        fetching.claims.lose(item)
        return
    fetching.claims.drop(item)
    if after.state is ItemState.FAILED and not after.stuck:
        fetching.measurements.item_retries.add(item.collection)


async def _ask(
    ctx: Context, fetch: Fetch, item: Item
) -> tuple[Document, None] | tuple[None, Exception]:
    try:
        document = await fetch(ctx, item)
        if not isinstance(document, Document):
            raise Malformed(f"fetching returned {type(document).__name__}, not a Document")
    except Exception as error:
        return None, error
    return document, None


def _change(fetching: ItemFetcher, item: Item, error: Exception | None) -> ItemChange:
    if error is None:
        return change.succeed(item)
    said = describe_error(error)
    known = fetching.collections.get(item.collection)
    decision = policy.decide(item, error, ItemRetryPolicy() if known is None else known.retry)
    match decision:
        case RetryItem(after):
            return change.fail(item, error=said, after=after)
        case DeferItem(after, limited, counts):
            return change.defer(item, after=after, error=said, limited=limited, counts=counts)
        case GiveUp(limited):
            return change.give_up(item, error=said, limited=limited)
        case Unavailable():
            return change.find_nothing(item, reason=said)
        case GiveBack():
            return change.release(item)
        case _:
            assert_never(decision)


async def _give_back(fetching: ItemFetcher, waiting: Iterable[Item]) -> None:
    """Release what was not tried, before anybody sleeps; what cannot be is left to its lease."""
    kept = [item for item in waiting if fetching.claims.has(item)]
    for item in kept:
        fetching.claims.drop(item)
    if not kept:
        return
    try:
        released = await fetching.items.settle_many([(change.release(item), None) for item in kept])
        fetching.claims.count_lost(sum(item is None for item in released))
    except Exception as error:
        _log.warning("items_not_returned", count=len(kept), error=describe_error(error))


def _tell(collection: Collection | None, attempt: FetchAttempt) -> None:
    """One event per attempt, whatever became of it; and the collection's own, where it has one."""
    item, after, error = attempt.item, attempt.after, attempt.error
    _log.info(
        "item_fetch",
        item=item.id,
        collection=item.collection,
        user=item.user_id,
        state=after.state.value if after else "lost",
        error=describe_error(error) if error else None,
        retry_count=after.retry_count if after else item.retry_count,
        duration_ms=round(attempt.duration_s * 1000, 1),
        rate_budget_remaining=attempt.budget_remaining,
    )
    if collection is not None and collection.on_attempt is not None:
        collection.on_attempt(attempt)


class JobItems:
    """The items of one job's connection, for its source."""

    def __init__(self, fetching: ItemFetcher, job: Job) -> None:
        """Work on those of the connection of `job`."""
        self._fetching = fetching
        self._job = job

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Note things that were found and are to be fetched."""
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

    async def progress(self, collection: str) -> Progress:
        """How many of the connection's items are over, of how many."""
        items, connection_id = self._fetching.items, self._job.connection_id
        states = await items.progress_of_connection(collection, connection_id)
        over = sum(states[state] for state in ITEM.terminal)
        return Progress(done=over, total=sum(states.values()))


# ---- what is not a worker's --------------------------------------------------------------------


async def reset_item(items: ItemStore, item_id: str, *, after: timedelta = NOW) -> Item:
    """Start an item afresh, at once or after a while; whoever holds it is shut out."""
    for _ in range(CHANGE_TRIES_MAX):
        reset = await items.settle(change.reset(await items.get(item_id), after=after))
        if reset is not None:
            return reset
    raise Conflict(f"others keep changing the item {item_id!r}; try again")
