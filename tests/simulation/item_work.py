"""A workload of items: jobs fetch them from a provider with a budget, and people reset some."""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any, cast

import msgspec
from sqlalchemy import Connection

from headgate.base.errors import IllegalTransition, Malformed, NoData, Transient
from headgate.flow.items.fetch import reset_item
from headgate.flow.jobs.ensure import ensure
from headgate.flow.jobs.submit import JobRequest
from headgate.flow.registry import Collection, Sync
from headgate.model.budget import Budget, Limit
from headgate.model.item import Document, Item
from headgate.model.job import Lane, Mode
from headgate.model.states import ITEM, ItemState
from headgate.policy.items import ItemRetryPolicy
from headgate.ports.connector import Chunk, Context
from headgate.ports.items import NewItem
from headgate.ports.limiter import Limiter
from headgate.store.sql.items import documents
from headgate.store.sql.items import rows as items
from headgate.testing.virtual_clock import VirtualClock
from tests.simulation.deployment import START, Deployment, StoreClock
from tests.simulation.invariants import judge_ends
from tests.simulation.limiter_server import LateLimiter, LimiterServer
from tests.simulation.provider import FaultRates
from tests.simulation.request_meter import RequestMeter
from tests.simulation.workload import FIRST_ACT_S, POLICY, JobWorkload, Stage

COLLECTION = "photos"
BACKFILL, LIVE = "photos", "live photos"
PEOPLE = 2
#: The photos of each person's one connection.
PHOTOS = 10
PAGE = 5
BATCH = 4
#: The longest response times to draw from: the last exceeds a worker's lease.
ANSWER_S_MAX = (2.0, 2.0, 2.0, 25.0)
#: Much smaller than what the workers could send. One window is short; in the other, the limiter may
#: only go on after a loss as the database allows.
BUDGET = Budget(
    COLLECTION,
    [Limit(3, per="20s", reserve=1), Limit(12, per="4min", reserve=2)],
    slots=3,
    slot_lease_s=60.0,
    pace_s_min=1.0,
)
#: The longest time that a request is on its way: within the guard band or, where the network
#: stalls, far longer, but not longer than half of a slot's lease.
TRAVEL_S_MAX, STALL_S_MAX = BUDGET.guard_s / 2, 25.0
RETRY = ItemRetryPolicy()
#: One photo in this many is lost at the provider.
LOST_EVERY = 7
#: The first photos of an album get their ids at the provider only after this time.
IDS_AFTER_S = 600.0


def photo_of(item_id: str) -> Document:
    """Return a photo as the provider has it: always the same."""
    return Document.of_json({"name": item_id, "points": [len(item_id) + n for n in range(3)]})


def is_lost(number: int) -> bool:
    """Whether the provider has lost the photo."""
    return number % LOST_EVERY == LOST_EVERY - 1


class PhotoSource:
    """Lists the photos of a connection, and fetches them one by one."""

    name = COLLECTION
    budget = BUDGET

    def __init__(self, draw: Random, trouble: FaultRates, meter: RequestMeter) -> None:
        self._draw = draw
        self._trouble = trouble
        self._meter = meter
        #: Some providers never tell what is used.
        self._tells = draw.random() < 0.5
        #: The share of requests that the network holds up.
        self.stalls = 0.0
        #: The ids of items whose registration was acknowledged.
        self.registered: set[str] = set()

    async def read(self, ctx: Context) -> Chunk:
        """List a page, or fetch what is due; live work fetches only the hot lane."""
        lane = Lane.HOT if ctx.sync == LIVE else None
        begin = ctx.cursor if isinstance(ctx.cursor, int) else 0
        if lane is None and begin < PHOTOS:
            return await self._list(ctx, begin)
        fetched = await ctx.items.fetch_due(ctx, COLLECTION, self._fetch, limit=BATCH, lane=lane)
        return Chunk.of_items(fetched, cursor=begin)

    async def _list(self, ctx: Context, begin: int) -> Chunk:
        await self._ask(ctx)
        known = ctx.clock.monotonic() > IDS_AFTER_S
        found = [
            _photo(ctx.connection_id, number, known=known or number > 1)
            for number in range(begin, begin + PAGE)
        ]
        await ctx.items.register(found)
        self.registered.update(each.id for each in found)
        return Chunk(cursor=begin + PAGE)

    async def _fetch(self, ctx: Context, item: Item) -> Document:
        await self._ask(ctx)
        if is_lost(int(item.external_id or 0)):
            raise NoData("it is gone")
        return photo_of(item.id)

    async def _ask(self, ctx: Context) -> None:
        """Send one request, which may fail in many ways."""
        async with ctx.gate.request() as passage:
            travel_s = STALL_S_MAX if self._draw.random() < self.stalls else TRAVEL_S_MAX
            after_s = self._draw.uniform(0, travel_s)
            with self._meter.arriving(after_s):
                await ctx.clock.sleep(after_s)
            await ctx.clock.sleep(self._draw.uniform(0, self._draw.choice(ANSWER_S_MAX)))
            if self._draw.random() < self._trouble.fails:
                raise self._draw.choice((Transient("503"), Malformed("not JSON"), KeyError("id")))
            if self._draw.random() < self._trouble.defers / 3:
                raise await passage.close_budget(self._draw.uniform(1, 60))
            if self._draw.random() < self._trouble.hangs:
                await ctx.clock.sleep(1e6)
            if self._tells:
                await passage.observe_counts(self._meter.counts())


class ItemWorkload(JobWorkload):
    """The workload: people whose photos are fetched."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        loop = stage.loop
        self._meter = RequestMeter(loop, BUDGET)
        self._source = PhotoSource(loop.random("photos"), stage.trouble, self._meter)
        self._server: LimiterServer | None = None
        self._keys = count()

    def syncs(self) -> Sequence[Sync]:
        """Return a backfill and live work, which may fetch the same photo at the same time."""
        return [
            Sync(
                name=name,
                source=self._source,
                retry=POLICY,
                # Longer than the wait for a short window whose use was lost.
                chunk_s_max=100,
                collections=[Collection(name=COLLECTION, title="Photos", retry=RETRY)],
            )
            for name in (BACKFILL, LIVE)
        ]

    def prepare(self, deployment: Deployment) -> None:
        """Count the budget in the file, or in a server that is down now and then.

        A server that loses its counts does not know what is on its way then; so the network and the
        processes stall where it loses nothing.
        """
        if self.stage.loop.random("limiter").random() < 0.5:
            self._server = LimiterServer(StoreClock(self.stage.loop, deployment.faults))
            deployment.limiter = self._server
        else:
            self._source.stalls = 0.5
            deployment.wrap_limiter = self._make_late

    def _make_late(self, limiter: Limiter) -> Limiter:
        loop = self.stage.loop
        late = LateLimiter(limiter, VirtualClock(loop), loop.random("late answers"))
        return cast(Limiter, late)

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the owners of photos, and the outages of the limiter."""
        people: list[Coroutine[Any, Any, None]] = [self._owner(n) for n in range(PEOPLE)]
        return people if self._server is None else [*people, self._outages(self._server)]

    async def _owner(self, number: int) -> None:
        async def act(draw: Random) -> None:
            mine = sorted(each for each in self._source.registered if each.startswith(f"{number}-"))
            chance = draw.random()
            if chance < 0.4 or not mine:
                await self._submit(number, draw.choice((Lane.HOT, Lane.COLD)))
            elif chance < 0.8:
                await self._fetch_at_once(number, draw.sample(mine, 3))
            elif self.acknowledged:
                await self.command(draw.choice(sorted(self.acknowledged)), draw.random())

        await self.act(f"owner {number}", act)

    async def _fetch_at_once(self, number: int, some: Sequence[str]) -> None:
        """Reset items that seem to hang, or else some others, and fetch them at once."""
        items = self.stage.client.runtime.items
        assert items is not None
        hangs = await items.list_items(
            COLLECTION, user_id=str(number), states=ITEM.claimed, limit=len(some)
        )
        wanted = [item.id for item in hangs] or some
        for item_id in wanted:
            with suppress(IllegalTransition):
                await reset_item(items, item_id)
        numbers = [int(item_id.partition("-")[2]) for item_id in wanted]
        await items.register([_photo(str(number), each, lane=Lane.HOT) for each in numbers])
        # As a webhook does: whichever job is active looks again.
        job = (await ensure(self.stage.client.runtime, _request(LIVE, number, Lane.HOT))).job
        self.acknowledged[job.id] = job

    async def _submit(self, number: int, lane: Lane) -> None:
        request = _request(BACKFILL, number, lane)
        await self.submit(msgspec.structs.replace(request, key=f"photos-{next(self._keys)}"))

    async def _outages(self, server: LimiterServer) -> None:
        draw = self.stage.loop.random("outages")
        clock = self.stage.client.clock
        while self.stage.loop.time() < FIRST_ACT_S:
            await clock.sleep(draw.expovariate(1 / 60))
            if draw.random() < 0.7:
                server.restart_empty()
                continue
            server.is_up = False
            await clock.sleep(draw.uniform(1, 90))
            if draw.random() < 0.5:
                server.restart_empty()
            else:
                server.is_up = True

    # ---- the end -------------------------------------------------------------------------------

    async def wind_up(self) -> bool:
        """Submit jobs for items that are left, and return whether all jobs and items have ended."""
        ended = await super().wind_up()
        found = await self.stage.client.database.read(_all_items)
        waiting = [
            item for item in found if not _has_ended(item) and item.state not in ITEM.claimed
        ]
        for number in sorted({int(item.connection_id) for item in waiting}):
            await self._submit(number, Lane.HOT)
        return ended and all(map(_has_ended, found))

    def judge(self, tx: Connection) -> Iterable[str]:
        """Check LOSS, LIVE and ONCE of jobs and items, and BUDGET."""
        yield from judge_ends(tx, self.acknowledged)
        yield from self._meter.findings()
        found = {item.id: item for item in _all_items(tx)}
        for item_id in sorted(self._source.registered - found.keys()):
            yield f"LOSS: item {item_id} was registered and is gone"
        for item in found.values():
            yield from _judge_item(tx, item)

    def counts(self) -> Mapping[str, int]:
        """Count the jobs, the items, and the requests that reached the provider."""
        items = len(self._source.registered)
        return {**super().counts(), "items": items, "requests": self._meter.arrivals}


def _photo(connection: str, number: int, *, known: bool = True, lane: Lane = Lane.COLD) -> NewItem:
    return NewItem(
        id=f"{connection}-{number}",
        collection=COLLECTION,
        user_id=connection,
        connection_id=connection,
        external_id=str(number) if known else None,
        start_time=START - timedelta(days=number),
        lane=lane,
    )


def _request(sync: str, number: int, lane: Lane) -> JobRequest:
    return JobRequest(
        sync=sync,
        user_id=str(number),
        connection_id=str(number),
        mode=Mode.FULL,
        lane=lane,
    )


def _all_items(tx: Connection) -> list[Item]:
    return items.find(tx, COLLECTION, limit=PEOPLE * PHOTOS + 1)


def _has_ended(item: Item) -> bool:
    return item.state in ITEM.terminal or item.stuck


def _judge_item(tx: Connection, item: Item) -> Iterable[str]:
    who = f"item {item.id}"
    if not _has_ended(item):
        yield f"LIVE: {who} is still {item.state.value}, due {item.next_attempt_at}"
    limits = {
        "retry_count": RETRY.failures_max,
        "crashes": RETRY.crashes_max,
        "deferrals": RETRY.deferrals_max,
    }
    for name, most in limits.items():
        if getattr(item, name) > most:
            yield f"LIVE: {who} has {name} {getattr(item, name)}, at most {most}"
    lost = item.external_id is None or is_lost(int(item.external_id))
    if item.state is ItemState.UNAVAILABLE and not lost:
        yield f"LOSS: {who} is unavailable, but the provider has it"
    if item.state is not ItemState.SUCCESS:
        return
    document = documents.serve(tx, item.id).document
    if document is None:
        yield f"LOSS: {who} is fetched, but its document is not there"
    elif document.content() != photo_of(item.id).body:
        yield f"ONCE: {who} is not what the provider has"
