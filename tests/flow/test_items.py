"""Fetching items: what becomes of each, what is given back, and a whole backfill of streams."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate import Chunk, Context, JobState, Sync
from headgate.base.clock import Clock
from headgate.base.errors import (
    AuthExpired,
    BudgetSpent,
    Conflict,
    Deferred,
    Forbidden,
    LimiterUnreachable,
    Malformed,
    NoData,
    RateLimited,
    StoreUnavailable,
    Transient,
)
from headgate.flow.items.fetch import ItemFetcher, JobItems, fetch_due, reset_item
from headgate.flow.items.service import item_stats
from headgate.flow.leases import recover, rescue
from headgate.flow.leases.settle import SETTLE_RESTS_S
from headgate.flow.registry import Collection
from headgate.model import item as change
from headgate.model.item import Document, Item
from headgate.model.job import Lane, Mode
from headgate.model.lease import AT_ONCE
from headgate.model.states import ItemState
from headgate.policy.items import ItemRetryPolicy
from headgate.ports.connector import Fetch
from headgate.ports.items import FetchAttempt, NewItem
from headgate.store.sql.items.store import SqlItems
from tests.flow.logs import lines, told
from tests.item_agents import ItemHeartbeat, ItemRescuer
from tests.unit.values import gates, make_job
from tests.worlds import START, ScriptedSource, World, as_test, in_world, with_world

STREAMS = "strava.streams"
CONNECTION = "connection_1"
DOCUMENT = Document.of_json({"time": [0, 1, 2]}, {"points": 3})
LATER = timedelta(minutes=15)
#: What no type checker lets through, and the store does not take.
NO_BYTES: Any = "a text"

Answer = Document | Exception | object


class Provider:
    """Answers each item as the test says, the last answer again and again; notes who asked."""

    def __init__(self, **answers: Sequence[Answer] | Answer) -> None:
        self._answers = answers
        self.asked: list[str] = []
        #: What happens while it is asked.
        self.meanwhile: Callable[[Item], Awaitable[None]] | None = None

    async def fetch(self, ctx: Context, item: Item) -> Document:
        self.asked.append(item.id)
        if self.meanwhile is not None:
            await self.meanwhile(item)
        answers = self._answers.get(item.id, DOCUMENT)
        if isinstance(answers, list):
            answers = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answers, Exception):
            raise answers
        return answers  # type: ignore[return-value]


class Place:
    """Items in a world, and what fetches them."""

    def __init__(self, world: World, items: SqlItems, worker: str = "worker_1") -> None:
        self.clock = world.clock
        self.items = items
        self.fetching = ItemFetcher(items=items, clock=world.clock, worker=worker)
        self.ctx = context(world.clock)

    def declare(self, *collections: Collection) -> None:
        """Know of these collections."""
        named = {each.name: each for each in collections}
        self.fetching = ItemFetcher(
            items=self.items, clock=self.clock, worker="worker_1", collections=named
        )

    @property
    def work(self) -> JobItems:
        """The items as a source of this connection sees them."""
        return JobItems(self.fetching, make_job(user_id="ada", connection_id=CONNECTION))

    async def register(self, *ids: str, **fields: Any) -> None:
        """Items of these names, the first one the oldest."""
        await self.work.register(
            [
                NewItem(
                    **{
                        "id": each,
                        "collection": STREAMS,
                        "user_id": "ada",
                        "connection_id": CONNECTION,
                        "external_id": f"external {each}",
                        "start_time": START + timedelta(days=number),
                        **fields,
                    }
                )
                for number, each in enumerate(ids)
            ]
        )

    async def fetch_due(self, fetch: Fetch, *, limit: int = 10) -> list[str]:
        """One batch; the ids of those that were settled."""
        done = await self.work.fetch_due(self.ctx, STREAMS, fetch, limit=limit)
        return [item.id for item in done.items]

    async def states(self) -> dict[str, str]:
        found = await self.items.list_items(STREAMS, limit=100)
        return {item.id: item.state.value for item in found}


def context(clock: Clock) -> Context:
    """What a source is told, but for what does not matter here."""
    return Context(
        job_id="job_1",
        user_id="ada",
        connection_id=CONNECTION,
        sync="streams",
        mode=Mode.FULL,
        day=None,
        cursor=None,
        since=None,
        limit=None,
        options={},
        chunks=0,
        records=0,
        clock=clock,
        gate=gates(clock, Random(0)).of(None, Lane.COLD, CONNECTION),
    )


def in_place(folder: Path, main: Callable[[Place], Awaitable[None]]) -> None:
    """Run `main` with items in a world of its own."""

    async def opened(world: World) -> None:
        app = await world.app()
        await main(Place(world, SqlItems(app._database)))

    in_world(folder, opened)


with_place = as_test(in_place)


# ---- what becomes of one item ------------------------------------------------------------------


@with_place
async def test_items_are_fetched_one_by_one_the_oldest_first(place: Place) -> None:
    await place.register("a", "b", "c")
    provider = Provider()

    assert await place.fetch_due(provider.fetch) == ["a", "b", "c"]
    assert provider.asked == ["a", "b", "c"]
    assert await place.states() == {"a": "success", "b": "success", "c": "success"}
    assert (await place.items.serve("b")).document is not None
    assert len(place.fetching.claims) == 0


@pytest.mark.parametrize(
    ("answer", "state", "error"),
    [
        (NoData("404"), ItemState.UNAVAILABLE, "NoData: 404"),
        (Malformed("x"), ItemState.FAILED, "Malformed: x"),
        (Transient("503"), ItemState.FAILED, "Transient: 503"),
        (RuntimeError("odd"), ItemState.FAILED, "ConnectorBug: RuntimeError: odd at tests/flow/"),
        (Forbidden("403"), ItemState.FAILED, "Forbidden: 403"),
        ("no document", ItemState.FAILED, "Malformed: fetching returned str, not a Document"),
        (
            Document(media_type="text/plain", body=NO_BYTES),
            ItemState.FAILED,
            "ConnectorBug: TypeError: a bytes-like object is required, not 'str' at headgate/",
        ),
    ],
    ids=str,
)
@with_place
async def test_what_concerns_one_item_is_settled_with_it_and_the_batch_goes_on(
    place: Place, answer: Answer, state: ItemState, error: str
) -> None:
    await place.register("a", "b")

    assert await place.fetch_due(Provider(a=answer).fetch) == ["a", "b"]

    item = await place.items.get("a")
    assert item.state is state
    assert (item.error or "").startswith(error)
    assert (await place.items.get("b")).state is ItemState.SUCCESS


@with_place
async def test_one_lane_is_fetched_without_the_other(place: Place) -> None:
    await place.register("a", "b")
    await place.register("c", lane=Lane.HOT)
    provider = Provider()

    done = await place.work.fetch_due(place.ctx, STREAMS, provider.fetch, lane=Lane.HOT)

    assert [(item.id, item.state.value) for item in done.items] == [("c", "success")]
    assert (provider.asked, done.wait) == (["c"], None)


@with_place
async def test_a_batch_says_how_long_to_wait_for_the_next(place: Place) -> None:
    # Given a full one, then there may be more
    await place.register("a", "b", "c")
    some = await place.work.fetch_due(place.ctx, STREAMS, Provider().fetch, limit=2)
    assert ([item.id for item in some.items], some.wait) == (["a", "b"], AT_ONCE)

    # And what another worker has, who may be lost, is over when its claim has ended
    lease = timedelta(seconds=60)
    await place.items.claim(STREAMS, CONNECTION, limit=1, lease=lease, worker="another")
    done = await place.work.fetch_due(place.ctx, STREAMS, Provider().fetch)
    assert (done.items, done.wait) == ([], lease)


@with_place
async def test_a_long_wait_is_cut_into_looks(place: Place) -> None:
    await place.register("a")
    provider = Provider(a=RateLimited(timedelta(hours=3)))
    with pytest.raises(RateLimited):
        await place.work.fetch_due(place.ctx, STREAMS, provider.fetch)

    done = await place.work.fetch_due(place.ctx, STREAMS, provider.fetch)

    assert (done.items, done.wait) == ([], timedelta(minutes=15))


@with_place
async def test_what_cuts_a_batch_short_is_told_beside_what_was_fetched(place: Place) -> None:
    await place.register("a", "b", "c")
    spent = BudgetSpent(timedelta(minutes=5))

    done = await place.work.fetch_due(place.ctx, STREAMS, Provider(b=spent).fetch)

    assert [item.state.value for item in done.items] == ["success", "deferred"]
    assert (done.error, done.wait) == (spent, AT_ONCE)
    assert (await place.states())["c"] == "pending"
    chunk = Chunk.of_items(done, cursor="here")
    assert (chunk.cursor, chunk.wait, chunk.error) == ("here", AT_ONCE, spent)


# ---- what ends a batch -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (BudgetSpent(LATER), "deferred"),
        (RateLimited(LATER, "strava refused the request (429)"), "deferred"),
        (Deferred(LATER), "deferred"),
        (LimiterUnreachable(LATER), "pending"),
        (AuthExpired(), "pending"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@with_place
async def test_what_concerns_all_gives_the_rest_back_before_it_is_raised(
    place: Place, error: Exception, state: str
) -> None:
    # Given three, of which the first meets it
    await place.register("b", "c", "d")
    provider = Provider(b=error)

    with pytest.raises(type(error)) as raised:
        await place.fetch_due(provider.fetch)

    # Then nothing is held, the rest was not asked for, and can be taken at once
    assert raised.value is error
    assert provider.asked == ["b"]
    expected = {"b": state, "c": "pending", "d": "pending"}
    assert await place.states() == expected
    assert await place.items.next_sweep_s() is None
    assert len(place.fetching.claims) == 0
    item = await place.items.get("b")
    assert (item.retry_count, item.crashes) == (0, 0)
    assert item.deferred_until == (START + LATER if state == "deferred" else None)
    rest = await place.fetch_due(Provider().fetch)
    assert rest == (["c", "d"] if state == "deferred" else ["b", "c", "d"])


@pytest.mark.parametrize(
    ("failing", "error", "tried"),
    [
        # A provider that is down costs three items one try each.
        ("abcdef", Transient("503"), 3),
        # A bug in fetch is no outage, and neither are failures between successes.
        ("abcdef", KeyError("vanue"), 6),
        ("abde", Transient("500"), 6),
    ],
)
@with_place
async def test_a_batch_ends_where_the_provider_seems_to_be_down(
    place: Place, failing: str, error: Exception, tried: int
) -> None:
    await place.register(*"abcdef")
    provider = Provider(**dict.fromkeys(failing, error))

    if tried < 6:
        with pytest.raises(Transient):
            await place.fetch_due(provider.fetch)
    else:
        assert await place.fetch_due(provider.fetch) == [*"abcdef"]

    assert provider.asked == [*"abcdef"[:tried]]
    failed = [the_id for the_id, state in (await place.states()).items() if state == "failed"]
    assert failed == [*failing[:tried]]


@with_place
async def test_a_batch_that_is_cut_short_gives_everything_back(place: Place) -> None:
    # Given a worker in the middle of its second item
    await place.register("a", "b", "c")
    provider = Provider()

    async def wait(item: Item) -> None:
        if item.id == "b":
            await place.clock.sleep(1e6)

    provider.meanwhile = wait
    task = asyncio.create_task(place.fetch_due(provider.fetch))
    await place.clock.sleep(1)

    # When it is told to stop
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    # Then what it had done is done, and the rest is anybody's
    assert await place.states() == {"a": "success", "b": "pending", "c": "pending"}
    assert (await place.items.get("b")).crashes == 0


# ---- leases ------------------------------------------------------------------------------------


@with_place
async def test_the_heartbeat_keeps_what_takes_long_and_nobody_else_gets_it(place: Place) -> None:
    # Given a fetch that takes many leases, and the services of a process
    await place.register("a", "b")
    provider = Provider()

    async def take_long(_: Item) -> None:
        await place.clock.sleep(600)

    provider.meanwhile = take_long
    services = ItemHeartbeat(place.fetching), ItemRescuer(place.fetching)
    for service in services:
        await service.start()

    # When it is done
    assert await place.fetch_due(provider.fetch) == ["a", "b"]

    # Then each was fetched once, and nobody counted as lost
    assert provider.asked == ["a", "b"]
    assert [(await place.items.get(each)).crashes for each in "ab"] == [0, 0]
    for service in services:
        await service.stop()


@with_place
async def test_the_rescuer_takes_the_items_of_a_worker_that_is_gone(place: Place) -> None:
    # Given a worker that died with two items
    await place.register("a", "b")
    lease = timedelta(seconds=60)
    await place.items.claim(STREAMS, CONNECTION, limit=2, lease=lease, worker="dead")
    rescuer = ItemRescuer(place.fetching)
    await rescuer.start()

    # When its leases have run out
    await place.clock.sleep(61)

    # Then they are anybody's, and it counts as a crash of each
    assert await place.states() == {"a": "pending", "b": "pending"}
    assert [(await place.items.get(each)).crashes for each in "ab"] == [1, 1]
    assert await place.fetch_due(Provider().fetch) == ["a", "b"]
    await rescuer.stop()


@with_place
async def test_one_sweep_has_an_end_however_many_are_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescue, "BATCH_MAX", 2)
    monkeypatch.setattr(rescue, "ROUNDS_MAX", 2)

    await place.register(*"abcde")
    lease = timedelta(seconds=60)
    await place.items.claim(STREAMS, CONNECTION, limit=5, lease=lease, worker="dead")
    await place.clock.sleep(61)

    assert await recover.rescue_items(place.items) == 4
    assert await recover.rescue_items(place.items) == 1


@pytest.mark.parametrize("beats", [True, False])
@with_place
async def test_a_worker_whose_claims_are_lost_writes_nothing_and_asks_for_no_more(
    place: Place, beats: bool
) -> None:
    # Given a worker that stands still past its lease in the middle of its first item, and finds
    # out by its heartbeat, or before it asks for the next
    await place.register("a", "b")
    heartbeat, rescuer = ItemHeartbeat(place.fetching), ItemRescuer(place.fetching)
    provider, others = Provider(), Provider()

    async def stand_still(_: Item) -> None:
        await place.clock.sleep(61)
        await rescuer.run_once()
        other = ItemFetcher(items=place.items, clock=place.clock, worker="worker_2")
        await fetch_due(
            other, place.ctx, others.fetch, collection=STREAMS, connection_id=CONNECTION, limit=2
        )
        if beats:
            await heartbeat.run_once()

    provider.meanwhile = stand_still
    with told() as stream:
        done = await place.fetch_due(provider.fetch)

    # Then its result is discarded, and it leaves the second item alone
    assert done == []
    assert (provider.asked, others.asked) == (["a"], ["a", "b"])
    assert (await place.items.get("a")).worker == "worker_2"
    attempts = [line["state"] for line in lines(stream, "item_fetch")]
    assert attempts == ["success", "success", "lost"]
    assert [line["count"] for line in lines(stream, "claims_lost")] == [2 if beats else 1]


@with_place
async def test_a_worker_that_missed_a_heartbeat_does_not_fetch_what_it_has_lost(
    place: Place,
) -> None:
    # Given a worker without heartbeats, and an operator who resets its second item meanwhile
    await place.register("a", "b")
    provider = Provider()

    async def take_long(_: Item) -> None:
        await place.clock.sleep(50)
        await reset_item(place.items, "b")

    provider.meanwhile = take_long

    assert await place.fetch_due(provider.fetch) == ["a"]
    assert provider.asked == ["a"]


# ---- an unreliable store -----------------------------------------------------------------------


class Unreliable:
    """Items whose `settle` fails as often as is said: before it took effect, or after."""

    def __init__(self, items: SqlItems) -> None:
        self._items = items
        self.before = 0
        self.after = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)

    async def settle(self, *change: Any) -> Any:
        return await self._fail_around(self._items.settle(*change))

    async def settle_many(self, batch: Any) -> Any:
        return await self._fail_around(self._items.settle_many(batch))

    async def _fail_around(self, settling: Coroutine[Any, Any, Any]) -> Any:
        if self.before:
            self.before -= 1
            settling.close()
            raise StoreUnavailable("it did not reach the store")
        settled = await settling
        if self.after:
            self.after -= 1
            raise StoreUnavailable("the answer was lost")
        return settled


def unreliable(place: Place) -> Unreliable:
    """Puts an unreliable store under the place."""
    store = Unreliable(place.items)
    place.fetching = ItemFetcher(items=store, clock=place.clock, worker="worker_1")
    return store


@with_place
async def test_an_outcome_is_written_across_an_outage_and_fetched_only_once(place: Place) -> None:
    await place.register("a", "b")
    store = unreliable(place)
    store.before, store.after = 2, 1
    provider = Provider()

    assert await place.fetch_due(provider.fetch) == ["a", "b"]
    assert provider.asked == ["a", "b"]


@with_place
async def test_a_store_that_stays_away_leaves_the_items_to_their_leases(place: Place) -> None:
    await place.register("a", "b")
    unreliable(place).before = len(SETTLE_RESTS_S) + 2

    with told() as stream, pytest.raises(StoreUnavailable):
        await place.fetch_due(Provider().fetch)

    assert await place.states() == {"a": "fetching", "b": "fetching"}
    assert len(place.fetching.claims) == 0
    assert [line["count"] for line in lines(stream, "items_not_returned")] == [2]


@with_place
async def test_a_change_that_others_keep_winning_against_is_a_conflict(place: Place) -> None:
    class Busy(Unreliable):
        async def settle(self, *wanted: Any) -> Any:
            item = await self._items.get(wanted[0].before.id)
            await self._items.settle(change.reset(item))
            return await self._items.settle(*wanted)

    await place.register("a")
    with pytest.raises(Conflict, match="keep changing"):
        await reset_item(Busy(place.items), "a")


# ---- what is told ------------------------------------------------------------------------------


@with_place
async def test_every_attempt_is_one_event(place: Place) -> None:
    await place.register("a", "b")
    provider = Provider(b=[Malformed("Authorization: Bearer s3cr3t")])

    async def take_a_while(_: Item) -> None:
        await place.clock.sleep(2)

    provider.meanwhile = take_a_while
    place.ctx.gate.remaining = 61  # type: ignore[misc]
    with told() as stream:
        await place.fetch_due(provider.fetch)

    first, second = lines(stream, "item_fetch")
    ours = {"at", "event", "level", "module"}
    assert {name: value for name, value in first.items() if name not in ours} == {
        "item": "a",
        "collection": STREAMS,
        "user": "ada",
        "state": "success",
        "error": None,
        "retry_count": 0,
        "duration_ms": 2000.0,
        "rate_budget_remaining": 61,
    }
    assert second.keys() == first.keys()
    assert (second["state"], second["retry_count"]) == ("failed", 1)
    assert second["error"].startswith("Malformed")
    assert "s3cr3t" not in stream.getvalue()
    assert "s3cr3t" not in repr(await place.items.get("b"))


@with_place
async def test_a_collection_is_told_of_every_attempt_at_its_items_and_of_no_others(
    place: Place,
) -> None:
    # Given a collection that listens, and another
    attempts: list[FetchAttempt] = []
    listening = Collection(name=STREAMS, title="Streams", on_attempt=attempts.append)
    place.declare(listening, Collection(name="strava.laps", title="Laps"))
    await place.register("a", "b", "lost")
    await place.register("c", collection="strava.laps")
    await place.register("d", collection="not declared")
    error = Malformed("x")
    provider = Provider(b=error)

    async def lose(item: Item) -> None:
        if item.id == "lost":
            await reset_item(place.items, item.id)

    provider.meanwhile = lose
    place.ctx.gate.remaining = 7  # type: ignore[misc]

    for collection in (STREAMS, "strava.laps", "not declared"):
        await place.work.fetch_due(place.ctx, collection, provider.fetch, limit=10)

    # Then it knows what became of each
    first, second, third = attempts
    assert (first.item.id, first.document, first.error) == ("a", DOCUMENT, None)
    assert first.after == await place.items.get("a")
    assert (first.budget_remaining, first.duration_s) == (7, 0)
    assert (second.item.id, second.document, second.error) == ("b", None, error)
    assert second.after is not None and second.after.retry_count == 1
    assert (third.item.id, third.after) == ("lost", None)


@with_place
async def test_a_collection_says_how_often_its_items_are_tried(place: Place) -> None:
    patient = ItemRetryPolicy(failures_max=5, backoff_s=(10,))
    place.declare(Collection(name=STREAMS, title="Streams", retry=patient))
    await place.register("a")
    provider = Provider(a=Malformed("x"))
    tries = 0
    while not (await place.items.get("a")).stuck:
        assert await place.fetch_due(provider.fetch) == ["a"]
        tries += 1
        await place.clock.sleep(10)

    assert tries == 5
    assert await place.fetch_due(provider.fetch) == []

    # And a reset gives it a new life
    await reset_item(place.items, "a")
    assert await place.fetch_due(Provider().fetch) == ["a"]


@with_place
async def test_an_item_that_the_provider_puts_off_for_ever_fails_in_the_end(place: Place) -> None:
    policy = ItemRetryPolicy(deferrals_max=2)
    place.declare(Collection(name=STREAMS, title="Streams", retry=policy))
    await place.register("a")
    # Each refusal for a time that is over when it is tried again
    for _ in range(2):
        with pytest.raises(RateLimited):
            await place.fetch_due(Provider(a=RateLimited(timedelta(0), "(429)")).fetch)
        await place.clock.sleep(1)

    item = await place.items.get("a")
    assert (item.stuck, item.retry_count) == (True, 0)
    assert item.error == "deferred 2 times: RateLimited: (429)"


@with_place
async def test_the_numbers_of_a_collection(place: Place) -> None:
    collection = Collection(name=STREAMS, title="Streams")
    await place.register("a", "b", "c", "d")
    await place.register("e", user_id="bob", start_time=START + timedelta(days=9))
    await place.register("f", collection="strava.laps")
    provider = Provider(a=Malformed("x"), b=Forbidden("403"), c=RateLimited(LATER))
    with pytest.raises(RateLimited):
        await place.fetch_due(provider.fetch)

    everybody = await item_stats(place.items, collection)
    adas = await item_stats(place.items, collection, user_id="ada")

    counts = {state: n for state, n in everybody.states.items() if n}
    assert (everybody.name, everybody.title) == (STREAMS, "Streams")
    assert counts == {ItemState.FAILED: 2, ItemState.DEFERRED: 1, ItemState.PENDING: 2}
    assert (everybody.retries, everybody.stuck, everybody.limited_24h) == ({1: 2}, 1, 1)
    assert everybody.of_user is None
    assert adas.of_user is not None and adas.of_user[ItemState.PENDING] == 1


# ---- a whole job -------------------------------------------------------------------------------


@with_world
async def test_anything_can_be_an_item(world: World) -> None:
    """Photos, listed and then fetched one by one, by a collection of their own."""
    seen: list[FetchAttempt] = []
    photos = Collection(
        name="album.photos",
        title="Photos",
        retry=ItemRetryPolicy(failures_max=5, backoff_s=(1,)),
        on_attempt=seen.append,
    )

    def photo(ctx: Context, name: str) -> NewItem:
        return NewItem(
            id=f"{ctx.connection_id}-{name}",
            collection=photos.name,
            user_id=ctx.user_id,
            connection_id=ctx.connection_id,
            external_id=name,
            start_time=START,
        )

    async def fetch(ctx: Context, item: Item) -> Document:
        # The second comes only when it is asked for the fifth time.
        if item.external_id == "b" and item.retry_count < 4:
            raise Malformed("half of a photo")
        body = f"photo {item.external_id}".encode()
        return Document(media_type="image/jpeg", body=body, attributes={"bytes": len(body)})

    async def read(ctx: Context) -> Chunk:
        if ctx.cursor is None:
            await ctx.items.register([photo(ctx, name) for name in "abc"])
            return Chunk(cursor="fetching")
        fetched = await ctx.items.fetch_due(ctx, photos.name, fetch, limit=2)
        return Chunk.of_items(fetched, cursor="fetching")

    app = await world.at_work(Sync(name="album", source=ScriptedSource(read), collections=[photos]))

    submitted = await app.jobs.submit("album", user_id="ada")
    job = await world.until(app, submitted.job.id)

    assert job.state is JobState.SUCCESS, job.error
    for name in "abc":
        served = await app.items.serve(f"ada-{name}", user_id="ada")
        assert served.document is not None
        assert served.document.media_type == "image/jpeg"
        assert served.document.content() == f"photo {name}".encode()
        assert served.document.attributes == {"bytes": 7}
    tried = [attempt.item.external_id for attempt in seen]
    assert (tried.count("b"), len(tried)) == (5, 7)
