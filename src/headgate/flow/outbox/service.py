"""The outbox: messages that are enqueued with an application's own rows and sent to targets.

`Outbox` is what an application, a command and a page work with.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from headgate.base.encoding import Json
from headgate.base.errors import Conflict, InvalidInput
from headgate.base.ids import Ids
from headgate.base.together import all_ended
from headgate.flow.outbox.attempts import DrainResult, ProgressCallback
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.drain_scope import BATCH, DrainScope
from headgate.flow.outbox.messages import new_message
from headgate.flow.outbox.targets import Targets
from headgate.model import delivery as change
from headgate.model.delivery import Delivery, Message, TargetStop
from headgate.model.states import DELIVERY, DeliveryEdge, DeliveryState, words
from headgate.model.target import Target
from headgate.policy.deliveries import DeliveryRetryPolicy
from headgate.ports.outbox import Backlog, DeliveryFilter, NewMessage, OutboxStore, OutboxWriter
from headgate.ports.signal import OUTBOX, Signal

#: A hundred years: as long as anybody keeps anything.
KEEP_DAYS_MAX = 36_500
#: The most deliveries in one batch.
BATCH_MAX = 1000
#: How many messages are replayed or purged in one transaction.
ROUND = 500
#: How often a command is repeated while others change the same delivery.
CHANGE_TRIES_MAX = 5

#: What is retried unless a state is named: most that are pending are due anyway.
_WENT_WRONG = (DeliveryState.FAILED, DeliveryState.DEAD)

T = TypeVar("T")
Tx = TypeVar("Tx")


class Outbox:
    """Enqueue messages, send them, and look after their deliveries."""

    def __init__(
        self,
        *,
        store: OutboxStore,
        writer: OutboxWriter,
        targets: Targets,
        signal: Signal,
        ids: Ids,
        drainer: Drainer | None,
        settings: "OutboxSettings | None" = None,
    ) -> None:
        """Work on `store`; without a `drainer` nothing can be sent from this process."""
        self._store = store
        self._writer = writer
        self.targets = targets
        #: How others learn that something is enqueued.
        self.signal = signal
        self.settings = settings or OutboxSettings()
        self._ids = ids
        self._drainer = drainer
        #: The message that was enqueued last by `enqueue`; it may be rolled back yet.
        self._latest: str | None = None

    # ---- enqueueing ----------------------------------------------------------------------------

    def enqueue(
        self,
        tx: Any,
        topic: str,
        payload: Json,
        *,
        key: str | None = None,
        run_id: str | None = None,
        user_id: str | None = None,
        targets: Sequence[str] | None = None,
        wake: bool = True,
    ) -> str:
        """Write a message in the transaction on `tx`, with the caller's own rows.

        `tx` is a SQLAlchemy connection or session, or a connection of sqlite3 or psycopg, to the
        database of this application. Nothing is sent before the caller commits. The message goes to
        `targets`, or else to those of its topic; if the topic has an empty list of them, it is kept
        for a target that `replay` names later. `key` makes enqueueing idempotent: a second
        message of the topic with the same key and payload is the first one. Returns its id.

        On Postgres a NOTIFY in the transaction wakes the workers at its commit, which Postgres does
        one commit after the other. At thousands of commits a second pass `wake=False`: then workers
        find the message when they next look.
        """
        new = self._new(topic, payload, key=key, run_id=run_id, user_id=user_id, to=targets)
        message_id = self._writer.enqueue(tx, new, wake=wake)
        self._latest = new.id
        return message_id

    def detects_enqueue(self, operation: Callable[[Tx], T]) -> Callable[[Tx], tuple[T, bool]]:
        """The operation on a transaction, which also returns whether it may have enqueued."""

        def run(tx: Tx) -> tuple[T, bool]:
            before = self._latest
            result = operation(tx)
            return result, self._latest != before

        return run

    async def submit(
        self,
        topic: str,
        payload: Json,
        *,
        key: str | None = None,
        run_id: str | None = None,
        user_id: str | None = None,
        targets: Sequence[str] | None = None,
    ) -> str:
        """Enqueue a message in a transaction of its own; returns its id."""
        new = self._new(topic, payload, key=key, run_id=run_id, user_id=user_id, to=targets)
        [message_id] = await self._store.add_messages([new])
        await self.signal.announce(OUTBOX)
        return message_id

    def _new(self, topic: str, payload: Json, **given: Any) -> NewMessage:
        return new_message(self.targets, self._ids, topic, payload, **given)

    async def announce(self) -> None:
        """Wake the workers, after a transaction with messages was committed."""
        await self.signal.announce(OUTBOX)

    # ---- sending -------------------------------------------------------------------------------

    async def send(self, message_id: str) -> Sequence[DrainResult]:
        """Send a committed message at once, to each of its targets that needs no confirmation.

        Raises NotFound if it is not committed.
        """
        await self._store.get_message(message_id)
        addressed = []
        for target in self.targets.open_targets():
            which = DeliveryFilter(message_id=message_id, target=target.name)
            if await self._store.list_deliveries(which, limit=1):
                addressed.append(target)
        scope = DrainScope(message_id=message_id)
        # At the same time, so that none waits for another that is down.
        return await all_ended(self.drain(target, scope) for target in addressed)

    async def drain(
        self,
        target: Target,
        scope: DrainScope | None = None,
        *,
        progress: ProgressCallback = lambda result: None,
    ) -> DrainResult:
        """Send what is due to a target, which `targets.choose` returns."""
        return await self.drainer.drain(target, scope, progress=progress)

    @property
    def drainer(self) -> Drainer:
        """What sends; InvalidInput if no target is configured."""
        if self._drainer is None:
            raise InvalidInput("targets", "none is configured, so nothing can be sent")
        return self._drainer

    # ---- looking and correcting ----------------------------------------------------------------

    async def get(self, delivery_id: str, *, user_id: str | None = None) -> Delivery:
        """The delivery; NotFound if it does not exist or belongs to another user."""
        return await self._store.get(delivery_id, user_id=user_id)

    async def get_message(self, message_id: str, *, user_id: str | None = None) -> Message:
        """The message; NotFound if it does not exist or belongs to another user."""
        return await self._store.get_message(message_id, user_id=user_id)

    async def list(
        self, which: DeliveryFilter | None = None, *, limit: int, after: str | None = None
    ) -> Sequence[Delivery]:
        """Deliveries in the order of their ids, which is that of their messages' times."""
        return await self._store.list_deliveries(
            which or DeliveryFilter(), limit=limit, after=after
        )

    async def count(
        self, which: DeliveryFilter | None = None
    ) -> Mapping[str, Mapping[DeliveryState, int]]:
        """How many deliveries there are, by target and state."""
        return await self._store.count_deliveries(which or DeliveryFilter())

    async def count_due(self, target: Target, *, run_id: str | None = None) -> int:
        """How many deliveries a drain of the target would send now."""
        topics = self.targets.topics_of(target)
        return await self._store.count_due(target.name, topics, run_id=run_id)

    async def backlog(self, target: Target, *, run_id: str | None = None) -> Backlog:
        """What a drain of the target could not send now: not due yet, or claimed by a worker."""
        topics = self.targets.topics_of(target)
        return await self._store.backlog(target.name, topics, run_id=run_id)

    async def retry(self, delivery_id: str) -> Delivery:
        """Send a delivery at once that has failed, is dead, or waits for a later time."""
        for _ in range(CHANGE_TRIES_MAX):
            delivery = await self._store.get(delivery_id)
            after = await self._store.settle(change.retry(delivery))
            if after is not None:
                await self.signal.announce(OUTBOX)
                return after
        raise Conflict(f"others keep changing the delivery {delivery_id!r}; try again")

    async def retry_all(
        self, which: DeliveryFilter, *, progress: Callable[[int], None] = lambda done: None
    ) -> int:
        """Send all that match at once; returns how many.

        If `which` names no state, only those that have failed or are dead are meant.
        """
        done, after = 0, None
        which = _retryable(which)
        while True:
            found = await self._store.list_deliveries(which, limit=ROUND, after=after)
            changes = [(change.retry(each), None) for each in found]
            settled = await self._store.settle_many(changes)
            done += sum(each is not None for each in settled)
            progress(done)
            if len(found) < ROUND:
                break
            after = found[-1].id
        await self.signal.announce(OUTBOX)
        return done

    async def count_replayable(self, target: Target, *, since: datetime) -> int:
        """How many messages since then have no delivery to the target yet."""
        topics = self._replayable_topics(target)
        return await self._store.count_replayable(topics, target.name, since)

    async def replay(
        self,
        target: Target,
        *,
        since: datetime,
        progress: Callable[[int], None] = lambda done: None,
    ) -> int:
        """Send old messages to a target that has not got them; returns how many.

        It is safe to repeat: a message has one delivery to a target, however often it is replayed.
        """
        done, topics = 0, self._replayable_topics(target)
        while added := await self._store.replay(topics, target.name, since, limit=ROUND):
            done += added
            progress(done)
        await self.signal.announce(OUTBOX)
        return done

    def _replayable_topics(self, target: Target) -> Sequence[str]:
        topic = self.targets.exclusive_topic_of(target)
        if topic is not None:
            raise InvalidInput(
                "target", f"{target.name} gets messages of {topic} when they are new, or not at all"
            )
        return self.targets.topics_of(target)

    async def purge(
        self, *, older_than: timedelta, progress: Callable[[int], None] = lambda done: None
    ) -> int:
        """Delete the messages that every target accepted so long ago; returns how many."""
        done = 0
        while purged := await self._store.purge_sent(older_than=older_than, limit=ROUND):
            done += purged
            progress(done)
        return done

    async def count_dead(self, *, older_than: timedelta, target: str | None = None) -> int:
        """How many messages the target, or any one, rejected so long ago; none waits for them."""
        return await self._store.count_dead(await self._rejecting(target), older_than=older_than)

    async def purge_dead(
        self,
        *,
        older_than: timedelta,
        target: str | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> int:
        """Delete the messages that `count_dead` counts; returns how many.

        No worker does this by itself: what was never delivered is deleted only if somebody asks.
        """
        done, names = 0, await self._rejecting(target)
        while purged := await self._store.purge_dead(names, older_than=older_than, limit=ROUND):
            done += purged
            progress(done)
        return done

    async def _rejecting(self, target: str | None) -> Sequence[str]:
        """The target, or else every one that has rejected something, configured or not."""
        if target is not None:
            return [target]
        return list(await self.count(DeliveryFilter(states=(DeliveryState.DEAD,))))

    async def stopped_targets(self) -> Mapping[str, TargetStop]:
        """The targets that get nothing until somebody has corrected their URL or key."""
        return await self._store.stopped_targets()

    async def resume(self, name: str) -> bool:
        """Let a stopped target go on; whether it had stopped."""
        resumed = await self._store.resume_target(self.targets.get(name).name)
        await self.signal.announce(OUTBOX)
        return resumed


def _retryable(which: DeliveryFilter) -> DeliveryFilter:
    """Those that match and can be retried."""
    sources = DELIVERY.edge(DeliveryEdge.RETRY).sources
    states = tuple(each for each in which.states or _WENT_WRONG if each in sources)
    if not states:
        raise InvalidInput("states", f"only {' or '.join(words(sources))} ones can be retried")
    return msgspec.structs.replace(which, states=states)


class OutboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the background worker drains the outbox."""

    #: The longest time between two looks at the outbox.
    interval_s: float = 60.0
    batch_limit: int = BATCH
    retry: DeliveryRetryPolicy = DeliveryRetryPolicy()
    #: How long a message is kept that every target has accepted.
    keep_sent: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        """Refuse settings that cannot work, naming the field."""
        if self.interval_s <= 0:
            raise InvalidInput("outbox_interval_s", "must be above 0")
        if not 1 <= self.batch_limit <= BATCH_MAX:
            raise InvalidInput("outbox_batch_limit", f"must be between 1 and {BATCH_MAX}")
