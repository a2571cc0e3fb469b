"""A workload of messages: people enqueue them with orders of their own, to receivers that fail."""

from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, cast

import msgspec
from sqlalchemy import Connection, select, text

from headgate.base.encoding import JsonObject, from_json, to_json
from headgate.base.errors import IllegalTransition, StoreError
from headgate.flow.outbox.service import Outbox
from headgate.flow.outbox.targets import Targets
from headgate.model.delivery import Delivery, Message
from headgate.model.states import DELIVERY, DeliveryState
from headgate.model.target import Topic
from headgate.ports.outbox import DeliveryFilter, OutboxStore
from headgate.store.sql.outbox import store
from headgate.store.sql.outbox.writer import SqlOutboxWriter, delivery_id
from headgate.store.sql.tables import job_events, messages
from tests.simulation.deployment import Deployment
from tests.simulation.provider import CHUNK_EVENT, CHUNK_TOPIC
from tests.simulation.receivers import Receivers, is_bad
from tests.simulation.workload import FIRST_ACT_S, SUBMITS_MAX, Stage, Workload

ORDERS = "orders"
TARGETS = ("local", "staging", "partner")
#: This one is down for the first minutes of the last act, when FAIR is checked.
DARK = "partner"
DARK_S = 240.0
#: So many messages wait for it, enough to keep every worker busy.
DARK_ORDERS = 12
#: When the order to check FAIR is placed: the rests that the first act left are over.
FAIR_AFTER_S = 60.0
#: How soon the others have it, although one is down: a worker may rest for a minute, answers take
#: half of one, and some may be ahead.
FAIR_S_MAX = 120.0
#: How many orders a buyer places at once.
ORDERS_AT_ONCE = (1, 2, 5)
#: One order in this many can be accepted by nobody.
BAD_EVERY = 6
FAIR_ORDER = 0


class Order(msgspec.Struct, frozen=True):
    """What a person enqueued, and knows to be committed."""

    message_id: str
    targets: tuple[str, ...]


class DeliveryWorkload(Workload):
    """The workload: people who place orders, and an operator who looks after the targets."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._receivers = Receivers(stage.loop, stage.trouble, TARGETS)
        self._numbers = count(1)
        #: The acknowledged orders, by id.
        self._orders: dict[int, Order] = {}
        self._calm_s: float | None = None
        #: When the order to check FAIR was placed.
        self._fair_s: float | None = None

    def prepare(self, deployment: Deployment) -> None:
        """Give the deployment its topics and targets, and the way to them."""
        topics = [
            Topic(name=ORDERS, path="/orders", targets=TARGETS),
            Topic(name=CHUNK_TOPIC, path="/chunks", targets=TARGETS[:1]),
        ]
        receivers = self._receivers.by_name.values()
        deployment.targets = Targets(topics, [each.target for each in receivers])
        deployment.sender = self._receivers

    def install(self, tx: Connection) -> None:
        """Create the orders, which are in the application's own table."""
        tx.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY, message_id TEXT)"))

    # ---- people --------------------------------------------------------------------------------

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the buyer, the operator, and the outages of each receiver."""
        return [
            self.act("buyer", self._buy),
            self.act("operator", self._operate),
            *(self._outages(name) for name in TARGETS),
        ]

    @property
    def _outbox(self) -> Outbox:
        client = self.stage.client
        return Outbox(
            store=cast(OutboxStore, client.faulty(client.sql_outbox)),
            writer=SqlOutboxWriter(client.store_clock),
            targets=client.runtime.targets,
            signal=client.runtime.signal,
            ids=client.runtime.ids,
            drainer=None,
        )

    async def _buy(self, draw: Random) -> None:
        for _ in range(draw.choice(ORDERS_AT_ONCE)):
            targets = tuple(sorted(draw.sample(TARGETS, draw.randint(1, len(TARGETS)))))
            await self._place(next(self._numbers), targets, with_key=draw.random() < 0.7)

    async def _place(self, number: int, targets: tuple[str, ...], *, with_key: bool) -> None:
        """Place an order; with a key, like a client that may lose the answer, and asks again."""
        outbox = self._outbox
        place = self.stage.client.faulty(_Shop(self.stage.client.database, outbox)).place
        for _ in range(SUBMITS_MAX if with_key else 1):
            with suppress(StoreError):
                message_id = await place(number, targets, f"order-{number}" if with_key else None)
                self._orders[number] = Order(message_id, targets)
                break
        # One hint for several: hints may be lost anyway.
        if number % 3 == 0:
            await outbox.announce()

    async def _operate(self, draw: Random) -> None:
        """Resume stopped targets, and try again what has failed or is dead."""
        outbox = self._outbox
        for name in await outbox.stopped_targets():
            await outbox.resume(name)
        which = DeliveryFilter(states=(DeliveryState.FAILED, DeliveryState.DEAD))
        found = await outbox.list(which, limit=20)
        if found and draw.random() < 0.3:
            with suppress(IllegalTransition):
                await outbox.retry(draw.choice(found).id)

    async def _outages(self, name: str) -> None:
        """Let a receiver be down for minutes, or refuse our key for a while."""
        draw, clock = self.stage.loop.random(f"outages of {name}"), self.stage.client.clock
        receiver = self._receivers.by_name[name]
        while self.stage.loop.time() < FIRST_ACT_S:
            await clock.sleep(self._in_act(draw.expovariate(1 / 300)))
            if draw.random() < 0.6:
                receiver.is_up = False
                await clock.sleep(self._in_act(draw.uniform(1, 300)))
            else:
                receiver.takes_key = False
                await clock.sleep(self._in_act(draw.uniform(1, 120)))
            receiver.is_up = receiver.takes_key = True

    def _in_act(self, seconds: float) -> float:
        """Return the part of a wait that is within the first act."""
        return max(0.0, min(seconds, FIRST_ACT_S - self.stage.loop.time()))

    # ---- the end -------------------------------------------------------------------------------

    async def wind_up(self) -> bool:
        """Let one target be down for a while; return whether all deliveries have ended."""
        now_s, dark = self.stage.loop.time(), self._receivers.by_name[DARK]
        if self._calm_s is None:
            self._calm_s = now_s
            dark.is_up, dark.hangs_until_s = False, now_s + DARK_S
            for _ in range(DARK_ORDERS):
                await self._place(next(self._numbers), (DARK,), with_key=True)
        for name in await self._outbox.stopped_targets():
            await self._outbox.resume(name)
        if now_s < self._calm_s + DARK_S:
            if self._fair_s is None and now_s >= self._calm_s + FAIR_AFTER_S:
                self._fair_s = now_s
                await self._place(FAIR_ORDER, TARGETS, with_key=True)
            return False
        dark.is_up = True
        rows = await self.stage.client.database.read(_deliveries)
        return all(row.state in DELIVERY.terminal for row in rows.values())

    def judge(self, tx: Connection) -> Iterable[str]:
        """Check LOSS, LIVE, ONCE and FAIR of messages."""
        rows, known = _deliveries(tx), _messages(tx)
        for number, order in sorted(self._orders.items()):
            yield from self._judge_order(number, order, rows, known)
        for row in rows.values():
            yield from self._judge_delivery(row, known[row.message_id])
        yield from self._judge_receivers(tx)
        yield from self._judge_chunks(tx, known)
        yield from self._judge_fairness()

    def _judge_order(
        self,
        number: int,
        order: Order,
        rows: Mapping[str, Delivery],
        known: Mapping[str, Message],
    ) -> Iterable[str]:
        for target in order.targets:
            # What all targets have is purged after a while.
            purged = order.message_id not in known and self._has_order(target, number)
            if not purged and delivery_id(order.message_id, target) not in rows:
                yield f"LOSS: order {number} was acknowledged, its message to {target} is gone"

    def _has_order(self, target: str, number: int) -> bool:
        return _payload(number) in self._receivers.by_name[target].times

    def _judge_delivery(self, row: Delivery, message: Message) -> Iterable[str]:
        receiver = self._receivers.by_name[row.target]
        if row.state not in DELIVERY.terminal:
            yield f"LIVE: {row.id} is still {row.state.value}, due {row.next_attempt_at}"
        if row.state is DeliveryState.SENT and message.payload not in receiver.times:
            yield f"LOSS: {row.id} is sent, but nobody has received it"
        if row.state is DeliveryState.DEAD and not is_bad(message.payload):
            yield f"LOSS: {row.id} is dead, although nobody rejected it: {row.error}"

    def _judge_receivers(self, tx: Connection) -> Iterable[str]:
        committed = {row.id for row in tx.execute(text("SELECT id FROM orders"))}
        for name, receiver in self._receivers.by_name.items():
            for key in receiver.changed:
                yield f"ONCE: {name} was sent two contents under {key}"
            for payload, times in receiver.times.items():
                if times > 1:
                    yield f"ONCE: {name} accepted {payload} {times} times"
                number = _read(payload).get("order")
                if number is not None and number not in committed:
                    yield f"ONCE: {name} has order {number}, which was never committed"

    def _judge_chunks(self, tx: Connection, known: Mapping[str, Message]) -> Iterable[str]:
        """Check that each committed chunk has its message, and that no other chunk has one."""
        marked = tx.execute(
            select(job_events.c.data).where(job_events.c.kind == CHUNK_EVENT)
        ).scalars()
        committed = [str(data["mark"]) for data in marked]
        stored = [each.payload for each in known.values() if each.topic == CHUNK_TOPIC]
        accepted = self._receivers.by_name[TARGETS[0]].times
        found = [str(_read(payload)["mark"]) for payload in stored]
        everywhere = {*found, *(str(_read(each).get("mark", "")) for each in accepted)} - {""}
        for mark in sorted(set(committed) - everywhere):
            yield f"LOSS: chunk {mark} was committed without its message"
        for mark in sorted(everywhere - set(committed)):
            yield f"ONCE: there is a message of chunk {mark}, which was never committed"
        if len(set(found)) != len(found) or len(set(committed)) != len(committed):
            yield "ONCE: a chunk has two messages"

    def _judge_fairness(self) -> Iterable[str]:
        assert self._fair_s is not None, "the last act is longer"
        for name in sorted({*TARGETS} - {DARK}):
            at_s = self._receivers.by_name[name].accepted_s.get(f"order-{FAIR_ORDER}")
            if at_s is None or at_s - self._fair_s > FAIR_S_MAX:
                yield f"FAIR: {name} waited for its message, because {DARK} was down"

    def counts(self) -> Mapping[str, int]:
        """Count the orders, and the messages that receivers accepted."""
        accepted = sum(len(each.payloads) for each in self._receivers.by_name.values())
        return {"orders": len(self._orders), "messages": accepted}


class _Shop:
    """The application's own store: an order and its message in one transaction."""

    def __init__(self, database: Any, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def place(self, number: int, targets: tuple[str, ...], key: str | None) -> str:
        """Write an order and its message, and return the message's id."""

        def write(tx: Connection) -> str:
            message_id = self._outbox.enqueue(tx, ORDERS, _order(number), key=key, targets=targets)
            row = {"id": number, "message_id": message_id}
            tx.execute(text("INSERT OR IGNORE INTO orders VALUES (:id, :message_id)"), row)
            return message_id

        placed: str = await self._database.write(write)
        return placed


def _order(number: int) -> JsonObject:
    return {"order": number, "bad": number % BAD_EVERY == 1}


def _payload(number: int) -> str:
    return to_json(_order(number))


def _read(payload: str) -> JsonObject:
    return cast(JsonObject, from_json(payload))


def _deliveries(tx: Connection) -> dict[str, Delivery]:
    return {row.id: row for row in store.TABLE.find(tx, select(*store.TABLE.columns))}


def _messages(tx: Connection) -> dict[str, Message]:
    return {row.id: Message(**row._mapping) for row in tx.execute(select(messages))}
