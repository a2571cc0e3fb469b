"""Fetching items one by one: claim, fetch, settle; and nothing is held while somebody sleeps.

A batch ends early where the items after it would only meet the same: the budget is spent, the
credentials are refused, the provider is down. Then what was not tried is given back first, and the
error is raised after that, for the job to wait or to end by. An error that concerns one item alone
is settled with it, and the batch goes on.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import assert_never

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import Conflict, Malformed, NotFound, StoreUnavailable
from headgate.base.log import get_logger
from headgate.base.redact import describe
from headgate.flow.registry import Collection
from headgate.model import item as change
from headgate.model.item import Document, Item, ItemChange
from headgate.model.states import ItemState
from headgate.policy import items as policy
from headgate.policy.items import Defer, GiveBack, GiveUp, ItemRetryPolicy, Retry, Unavailable
from headgate.ports.connector import Context, Fetch
from headgate.ports.items import FetchAttempt, Fetched, HeldItem, Items, NewItem, Registered

#: A worker that is silent for so long has lost its items.
LEASE = timedelta(seconds=60)
#: Beats in the time of one lease: two may be missed before the third comes too late.
BEATS_PER_LEASE = 3
#: Claims that were not seen to be good for so long, in leases, are looked at before they are used.
MISSED_LEASES = 0.5
#: A database that does not answer is asked again after each of these.
SETTLE_RESTS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
#: Lost items put right in one transaction, and such transactions in one go, at most.
RESCUE_MAX = 200
RESCUE_ROUNDS_MAX = 50
#: Others may change an item between the look and the write: look again so often.
CHANGE_TRIES_MAX = 5

_log = get_logger(__name__)

#: What is declared, by name.
Collections = Mapping[str, Collection]
_NONE: Collections = {}


class HeldItems:
    """The items that this process holds."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._held: dict[str, Item] = {}
        #: When the oldest of the claims was last seen to be good, by the monotonic clock.
        self.seen_s = 0.0

    def __len__(self) -> int:
        """How many are held."""
        return len(self._held)

    def add(self, taken: Iterable[Item], *, seen_s: float) -> None:
        """Begin to hold what was claimed then."""
        self.seen_s = min(self.seen_s, seen_s) if self._held else seen_s
        self._held.update((item.id, item) for item in taken)

    def has(self, item: Item) -> bool:
        """Whether it is still held under the token it was claimed by."""
        held = self._held.get(item.id)
        return held is not None and held.token == item.token

    def drop(self, item: Item) -> None:
        """Hold no longer."""
        if self.has(item):
            del self._held[item.id]

    def claims(self) -> dict[HeldItem, Item]:
        """Every claim, and the item that it is for."""
        return {HeldItem(item.id, item.token): item for item in self._held.values()}


class Fetching(msgspec.Struct, frozen=True, kw_only=True):
    """What fetching needs at hand: one for each process."""

    items: Items
    clock: Clock
    #: A name that no other process has.
    worker: str
    lease: timedelta = LEASE
    collections: Collections = {}
    held: HeldItems = msgspec.field(default_factory=HeldItems)

    @property
    def is_unsure(self) -> bool:
        """Whether a beat was missed: then a claim may have run out."""
        since_s = self.clock.monotonic() - self.held.seen_s
        return since_s > self.lease.total_seconds() * MISSED_LEASES


async def fetch_due(
    fetching: Fetching,
    ctx: Context,
    fetch: Fetch,
    *,
    collection: str,
    connection_id: str,
    limit: int,
) -> Fetched:
    """A step of a backfill: the connection's next due items."""
    items = fetching.items
    began_s = fetching.clock.monotonic()
    taken = await items.claim(
        collection, connection_id, limit=limit, lease=fetching.lease, worker=fetching.worker
    )
    fetching.held.add(taken, seen_s=began_s)
    done = await _fetch_all(fetching, ctx, fetch, taken)
    more = len(taken) == limit
    return Fetched(done, 0.0 if more else await items.next_due_s(collection, connection_id))


async def fetch_these(
    fetching: Fetching, ctx: Context, fetch: Fetch, item_ids: Sequence[str]
) -> Sequence[Item]:
    """Live work: these items, as far as they are due and nobody else has them; as they were left.

    What does not come through now goes before all backfill later. What somebody else has is among
    them as it is: that one may still give it back.
    """
    began_s = fetching.clock.monotonic()
    taken = await fetching.items.claim_these(item_ids, lease=fetching.lease, worker=fetching.worker)
    fetching.held.add(taken, seen_s=began_s)
    done = await _fetch_all(fetching, ctx, fetch, taken)
    ours = {item.id for item in done}
    return [*done, *await _others(fetching.items, [each for each in item_ids if each not in ours])]


async def _others(items: Items, item_ids: Iterable[str]) -> Sequence[Item]:
    """Those that somebody else has, or gave back after they could not be claimed."""
    found = []
    for item_id in item_ids:
        with suppress(NotFound):
            found.append(await items.get(item_id))
    return [item for item in found if item.state in (ItemState.FETCHING, ItemState.PENDING)]


async def keep_held(fetching: Fetching) -> None:
    """Extend the leases of all that is held, in one write, and hold no longer what is lost."""
    held = fetching.held
    claims = held.claims()
    if not claims:
        return
    began_s = fetching.clock.monotonic()
    alive = await fetching.items.extend(list(claims), lease=fetching.lease)
    # What was settled or claimed meanwhile is not lost.
    lost = [item for item in claims.values() if item.id not in alive and held.has(item)]
    for item in lost:
        held.drop(item)
    held.seen_s = began_s
    if lost:
        _log.warning("items_lost", count=len(lost))


async def _fetch_all(
    fetching: Fetching, ctx: Context, fetch: Fetch, taken: Sequence[Item]
) -> Sequence[Item]:
    waiting = deque(taken)
    done: list[Item] = []
    transients = 0
    try:
        while waiting:
            error = None
            # A worker that stood still must not ask for what is another's by now.
            if fetching.is_unsure:
                await keep_held(fetching)
            if fetching.held.has(waiting[0]):
                after, error = await _fetch_one(fetching, ctx, fetch, waiting[0])
                if after is not None:
                    done.append(after)
                else:
                    await keep_held(fetching)
            waiting.popleft()
            transients = transients + 1 if error and policy.is_transient(error) else 0
            if error is not None and policy.ends_batch(error, transients):
                raise error
    finally:
        await _give_back(fetching, waiting)
    return done


async def _fetch_one(
    fetching: Fetching, ctx: Context, fetch: Fetch, item: Item
) -> tuple[Item | None, Exception | None]:
    """One attempt: the item as it was left, if its claim held, and what went wrong, if anything."""
    began_s = fetching.clock.monotonic()
    document, error = await _ask(ctx, fetch, item)
    try:
        after = await _settle(fetching, _change(fetching, item, error), document)
    except StoreUnavailable:
        raise
    except Exception as refused:
        # What the store does not take is malformed like any other answer.
        document, error = None, refused
        after = await _settle(fetching, _change(fetching, item, error), None)
    fetching.held.drop(item)
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


def _change(fetching: Fetching, item: Item, error: Exception | None) -> ItemChange:
    if error is None:
        return change.succeed(item)
    said = describe(error)
    decision = policy.decide(item, error, _policy_of(fetching.collections, item))
    match decision:
        case Retry(after):
            return change.fail(item, error=said, after=after)
        case Defer(after, limited, counts):
            return change.defer(item, after=after, error=said, limited=limited, counts=counts)
        case GiveUp(limited):
            return change.give_up(item, error=said, limited=limited)
        case Unavailable():
            return change.find_nothing(item, reason=said)
        case GiveBack():
            return change.release(item)
        case _:
            assert_never(decision)


async def _settle(
    fetching: Fetching, changed: ItemChange, document: Document | None
) -> Item | None:
    """Write the outcome, also across an outage of the store.

    When a write was cut off, it may have taken effect. Writing it again is safe, but then it finds
    itself in the way and loses, so the row is read to see whether what is there is ours.
    """
    uncertain = False
    rests_s = iter(SETTLE_RESTS_S)
    while True:
        try:
            [after] = await fetching.items.settle([(changed, document)])
            return await _ours(fetching.items, changed) if after is None and uncertain else after
        except StoreUnavailable:
            rest_s = next(rests_s, None)
            if rest_s is None:
                raise
            uncertain = True
            await fetching.clock.sleep(rest_s)


async def _ours(items: Items, changed: ItemChange) -> Item | None:
    row = await items.get(changed.before.id)
    same_claim = row.token == changed.before.token + changed.fences
    return row if same_claim and row.state is changed.edge.target else None


async def _give_back(fetching: Fetching, waiting: Iterable[Item]) -> None:
    """Release what was not tried, before anybody sleeps; what cannot be is left to its lease."""
    kept = [item for item in waiting if fetching.held.has(item)]
    for item in kept:
        fetching.held.drop(item)
    if not kept:
        return
    try:
        await fetching.items.settle([(change.release(item), None) for item in kept])
    except Exception as error:
        _log.warning("items_not_returned", count=len(kept), error=describe(error))


def _tell(collection: Collection | None, attempt: FetchAttempt) -> None:
    """One event per attempt, whatever became of it; and the collection's own, where it has one."""
    item, after, error = attempt.item, attempt.after, attempt.error
    _log.info(
        "item_fetch",
        item=item.id,
        collection=item.collection,
        user=item.user_id,
        state=after.state.value if after else "lost",
        error=describe(error) if error else None,
        retry_count=after.retry_count if after else item.retry_count,
        duration_ms=round(attempt.duration_s * 1000, 1),
        rate_budget_remaining=attempt.budget_remaining,
    )
    if collection is not None and collection.on_attempt is not None:
        collection.on_attempt(attempt)


class JobItems:
    """The items of one job's connection, for its source."""

    def __init__(self, fetching: Fetching, connection_id: str) -> None:
        """Work on those of `connection_id`."""
        self._fetching = fetching
        self._connection_id = connection_id

    async def register(self, found: Sequence[NewItem]) -> Registered:
        """Note things that were found and are to be fetched."""
        return await self._fetching.items.register(found)

    async def fetch_due(
        self, ctx: Context, collection: str, fetch: Fetch, *, limit: int
    ) -> Fetched:
        """Fetch the connection's next due items."""
        return await fetch_due(
            self._fetching,
            ctx,
            fetch,
            collection=collection,
            connection_id=self._connection_id,
            limit=limit,
        )

    async def fetch_these(
        self, ctx: Context, item_ids: Sequence[str], fetch: Fetch
    ) -> Sequence[Item]:
        """Live work: these items."""
        return await fetch_these(self._fetching, ctx, fetch, item_ids)


# ---- what is not a worker's --------------------------------------------------------------------


async def rescue_items(items: Items, collections: Collections = _NONE) -> int:
    """Take items from workers that are gone; how many."""
    total = 0
    for _ in range(RESCUE_ROUNDS_MAX):
        found = await items.expired(limit=RESCUE_MAX)
        changes = [policy.rescue(item, _policy_of(collections, item)) for item in found]
        rescued = await items.settle([(each, None) for each in changes])
        total += sum(item is not None for item in rescued)
        if len(found) < RESCUE_MAX:
            break
    return total


def _policy_of(collections: Collections, item: Item) -> ItemRetryPolicy:
    """By its collection; one that is declared elsewhere is given the patience that most have."""
    known = collections.get(item.collection)
    return ItemRetryPolicy() if known is None else known.retry


async def reset_item(items: Items, item_id: str) -> Item:
    """Start an item afresh, whatever became of it; whoever holds it is shut out."""
    for _ in range(CHANGE_TRIES_MAX):
        [after] = await items.settle([(change.reset(await items.get(item_id)), None)])
        if after is not None:
            return after
    raise Conflict(f"others keep changing the item {item_id!r}; try again")
