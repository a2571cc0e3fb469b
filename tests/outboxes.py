"""An outbox in a world of virtual time: a real store, and a sender that does as a test says."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from headgate.base.clock import Clock
from headgate.base.errors import StoreUnavailable
from headgate.base.ids import UlidIds
from headgate.base.secret import Secret
from headgate.flow.measurements import Measurements
from headgate.flow.outbox.attempts import DrainResult
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.flow.outbox.service import Outbox
from headgate.flow.outbox.targets import Targets
from headgate.model.delivery import Acceptance, Delivery, Message, SendOutcome
from headgate.model.target import Target, Topic
from headgate.ports.outbox import DeliveryFilter
from headgate.signals.local import LocalSignal
from headgate.store.sql.outbox.store import SqlOutbox
from headgate.store.sql.outbox.writer import SqlOutboxWriter
from tests.worlds import World, in_world

TOPIC = Topic(name="orders", path="/v1/orders", targets=("local",))
LEASE = timedelta(seconds=60)
#: Reached only when a test fails.
MEETING_S_MAX = 10.0

Answer = SendOutcome | Exception


def target(name: str = "local", **fields: Any) -> Target:
    """A target at a place of its own, one request at once, but for `fields`."""
    given = {"url": f"https://{name}.example.com", "key": Secret("k3y"), "concurrency": 1, **fields}
    return Target(name=name, **given)


LOCAL = target()


class ScriptedSender:
    """Answers each message as the test says, by its key; the last answer again and again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.default: Answer = Acceptance()
        #: By the key of the message, or by the name of the target.
        self.answers: dict[str, list[Answer] | Answer] = {}
        #: How long an attempt takes, by the name of the target.
        self.takes_s: dict[str, float] = {}
        #: What happens while a message is being sent.
        self.meanwhile: Callable[[Message], Awaitable[None]] | None = None
        #: The key and the target of every attempt that began, and when.
        self.begun: list[tuple[str, str, float]] = []
        self.under_way = 0
        self.most_under_way = 0

    @property
    def keys(self) -> list[str]:
        """The keys of the messages of every attempt."""
        return [key for key, _, _ in self.begun]

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        self.begun.append((message.key, target.name, self._clock.monotonic()))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.meanwhile is not None:
                await self.meanwhile(message)
            await self._clock.sleep(self.takes_s.get(target.name, 0.0))
        finally:
            self.under_way -= 1
        answer = self._answer(message.key, target.name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer(self, key: str, target: str) -> Answer:
        found = self.answers.get(key, self.answers.get(target, self.default))
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found


class MeetingSender:
    """Accepts messages when it sends to so many targets at once; fails if that does not happen."""

    def __init__(self, targets: int) -> None:
        self._meeting = asyncio.Barrier(targets)

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        async with asyncio.timeout(MEETING_S_MAX):
            await self._meeting.wait()
        return Acceptance()


class FaultyOutbox:
    """The real store, whose operations fail as often as a test says, before they begin or after."""

    def __init__(self, store: SqlOutbox) -> None:
        self._store = store
        #: By the name of the operation.
        self.fail_before: dict[str, int] = {}
        self.fail_after: dict[str, int] = {}
        self.error: Exception = StoreUnavailable("it is away")
        #: The names of the operations, in their order, and the sizes of the claims.
        self.calls: list[str] = []
        self.claims: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        async def call(*args: Any, **named: Any) -> Any:
            self.calls.append(name)
            if name == "claim":
                self.claims.append(named["limit"])
            if self.fail_before.get(name, 0):
                self.fail_before[name] -= 1
                raise self.error
            result = await found(*args, **named)
            if self.fail_after.get(name, 0):
                self.fail_after[name] -= 1
                raise self.error
            return result

        return call


class PostOffice:
    """A process with an outbox: its store, its sender and its drainer."""

    def __init__(
        self, world: World, database: Any, *targets: Target, worker: str = "worker_1"
    ) -> None:
        self.world = world
        self.clock = world.clock
        self.targets = Targets([TOPIC], targets or [LOCAL])
        self.real_store = SqlOutbox(database, world.clock)
        self.store: Any = FaultyOutbox(self.real_store)
        self.sender = ScriptedSender(world.clock)
        self.signal = LocalSignal()
        self.measurements = Measurements()
        self.drainer = Drainer(
            store=self.store,
            sender=self.sender,
            targets=self.targets,
            clock=world.clock,
            rng=Random(1),
            worker=worker,
            lease=LEASE,
            measurements=self.measurements,
        )
        self.outbox = Outbox(
            store=self.store,
            writer=SqlOutboxWriter(world.clock),
            targets=self.targets,
            signal=self.signal,
            ids=UlidIds(world.clock, Random(2)),
            drainer=self.drainer,
        )

    async def enqueue(self, *keys: str, **given: Any) -> Sequence[str]:
        """Messages with these keys, the first one the oldest; returns their ids."""
        ids = []
        for key in keys:
            ids.append(await self.outbox.submit("orders", {"of": key}, key=key, **given))
            await self.clock.sleep(0.001)
        return ids

    async def drain(
        self, name: str = "local", *, progress: Any = lambda result: None, **scope: Any
    ) -> DrainResult:
        """One drain of the target of that name."""
        chosen = self.targets.get(name)
        return await self.drainer.drain(chosen, DrainScope(**scope), progress=progress)

    async def deliveries(self, target: str = "local") -> Mapping[str, Delivery]:
        """The deliveries to a target, by the keys of their messages."""
        found = await self.real_store.list_deliveries(DeliveryFilter(target=target), limit=1000)
        return {(await self.real_store.get_message(each.message_id)).key: each for each in found}

    async def states(self, target: str = "local") -> Mapping[str, str]:
        """The states of the deliveries to a target, by the keys of their messages."""
        return {key: each.state.value for key, each in (await self.deliveries(target)).items()}


def in_post_office(
    folder: Path,
    main: Callable[[PostOffice], Awaitable[None]],
    *targets: Target,
    seed: int | None = None,
) -> None:
    """Run `main` with an outbox in a world of its own; nothing may be left claimed in memory."""

    async def opened(world: World) -> None:
        app = await world.app()
        office = PostOffice(world, app._database, *targets)
        await main(office)
        assert len(office.drainer.claims) == 0

    in_world(folder, opened, seed=seed)
