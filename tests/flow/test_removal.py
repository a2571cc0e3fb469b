"""Removing a connection: its items go with it, whatever else happens meanwhile; records stay."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from sqlalchemy import insert

from headgate import App, Document, Item, ItemState, JobState, NewItem, NotFound
from headgate.base.errors import StoreUnavailable
from headgate.flow.connections import service as connect
from headgate.flow.items.fetch import JobItems, fetch_due
from headgate.loops.pruner import PRUNE_EVERY_S
from headgate.loops.supervisor import WorkerSettings, housekeepers
from headgate.store.sql.tables import items as items_table
from headgate.types import Connection
from tests import stores
from tests.connecting import Site, submit
from tests.flow.test_items import context
from tests.unit.values import make_job
from tests.worlds import World, as_test, where_workers_die

COLLECTION = "strava.streams"


class Place:
    """An application, and an athlete who is connected and has items."""

    def __init__(self, world: World, app: App, connection: Connection) -> None:
        self.world, self.app, self.connection = world, app, connection
        self.items = app.items._store
        assert app._runtime.fetching is not None
        self.fetching = app._runtime.fetching

    def found(self, *names: str, connection_id: str | None = None) -> list[NewItem]:
        return [
            NewItem(
                id=name,
                collection=COLLECTION,
                user_id="ada",
                connection_id=connection_id or self.connection.id,
                external_id=name,
                start_time=self.world.clock.now(),
            )
            for name in names
        ]

    def row(self, name: str) -> Item:
        """An item as it stands in the table."""
        [new], now = self.found(name), self.world.clock.now()
        return Item(
            state=ItemState.PENDING,
            next_attempt_at=now,
            created_at=now,
            updated_at=now,
            **asdict(new),
        )

    async def fetch(self, fetch: Any) -> list[str]:
        """One batch of the connection's items; those that were settled."""
        done = await fetch_due(
            self.fetching,
            context(self.world.clock),
            fetch,
            collection=COLLECTION,
            connection_id=self.connection.id,
            limit=10,
        )
        return [item.id for item in done.items]

    async def remove(self) -> None:
        await self.app.connections.remove(self.connection.id, user_id="ada")

    async def prune(self) -> None:
        """A worker starts, and prunes items until it has nothing to do."""
        services = housekeepers(self.app._runtime, WorkerSettings())
        [pruner] = [each for each in services if each.name == "pruner.items"]
        while await pruner.run_once() != PRUNE_EVERY_S:
            pass

    async def left(self) -> list[str]:
        """The ids of all items that are there, and of those that have a document."""
        rows = await self.app._database.read(stores.contents)
        return sorted(row[0] for table in ("items", "item_documents") for row in rows[table])


async def fetched(*_: object) -> Document:
    return Document.of_json({"time": [0]})


def in_place(folder: Path, main: Callable[[Place], Awaitable[None]]) -> None:
    async def opened(world: World) -> None:
        site = Site(world, activities=5)
        app = await site.app()
        await main(Place(world, app, await site.connect(app)))

    where_workers_die(folder, opened)


with_place = as_test(in_place)


@with_place
async def test_items_and_documents_go_with_their_connection_and_nothing_else_does(
    place: Place,
) -> None:
    # Given a connection with records, items and documents, and another with an item
    app = place.app
    await app.supervisor().start()
    job = await submit(app, place.connection)
    assert (await place.world.until(app, job.id)).state is JobState.SUCCESS
    await place.items.register(place.found("a", "b"))
    assert await place.fetch(fetched) == ["a", "b"]
    await place.items.register(place.found("c", "d"))
    await place.items.register(place.found("x", connection_id="conn_other"))

    # When it is removed, by its owner alone
    with pytest.raises(NotFound):
        await app.connections.remove(place.connection.id, user_id="bob")
    assert len(await place.left()) == 7
    await place.remove()

    # Then its items are gone with their documents, and its records are there
    assert await place.left() == ["x"]
    assert len(await app.records.list(job.sync, place.connection.id)) == 5
    with pytest.raises(NotFound):
        await place.remove()


@with_place
async def test_a_fetch_that_ends_later_brings_nothing_back(place: Place) -> None:
    # Given a worker that is asking for the first of two items when the connection is removed
    await place.items.register(place.found("a", "b"))
    asked: list[str] = []

    async def fetch(_: object, item: Item) -> Document:
        asked.append(item.id)
        await place.remove()
        # It has found more, too.
        work = JobItems(place.fetching, make_job(connection_id=place.connection.id))
        assert (await work.register(place.found("a", "c"))).created == 0
        return await fetched()

    assert await place.fetch(fetch) == []

    # Then it asks for no other, and nothing is there
    assert asked == ["a"]
    assert await place.left() == []
    assert len(place.fetching.claims) == 0


@with_place
async def test_an_answer_that_was_lost_does_not_bring_an_item_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that settles, but cannot say so; and a connection that is removed meanwhile
    await place.items.register(place.found("a"))
    settle = place.items.settle
    broken = [StoreUnavailable("the answer was lost")]

    async def settle_once(*wanted: Any) -> Any:
        settled = await settle(*wanted)
        if broken:
            await place.remove()
            raise broken.pop()
        return settled

    monkeypatch.setattr(place.items, "settle", settle_once)

    assert await place.fetch(fetched) == []
    assert await place.left() == []


@with_place
async def test_what_a_crash_left_is_swept_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "FORGET_MAX", 2)

    # Given a removal that dies after its first batch
    await place.items.register(place.found("a", "b", "c", "d", "e"))
    await place.fetch(fetched)
    forget = place.items.forget
    calls = []

    async def die(connection_id: str, *, limit: int) -> int:
        calls.append(limit)
        if len(calls) > 1:
            raise StoreUnavailable("it is gone")
        return await forget(connection_id, limit=limit)

    with monkeypatch.context() as dying:
        dying.setattr(place.items, "forget", die)
        with pytest.raises(StoreUnavailable):
            await place.remove()
    assert len(await place.left()) == 6

    # Then the connection is gone all the same, and a worker deletes the rest
    with pytest.raises(NotFound):
        await place.app.connections.get(place.connection.id)
    await place.prune()
    assert await place.left() == []


@with_place
async def test_a_removal_has_an_end_however_many_items_there_are(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FORGET_MAX", 2)
    monkeypatch.setattr(connect, "FORGET_ROUNDS_MAX", 2)

    await place.items.register(place.found("a", "b", "c", "d", "e"))

    await place.remove()

    assert len(await place.left()) == 1
    await place.prune()
    assert await place.left() == []


@with_place
async def test_what_came_in_at_the_very_moment_is_pruned_every_hour(place: Place) -> None:
    # Given a worker, and an item that another transaction brought in meanwhile
    await place.app.supervisor().start()
    await place.world.clock.sleep(1)
    await place.remove()
    await place.app._database.write(
        lambda tx: tx.execute(insert(items_table).values(asdict(place.row("late"))))
    )
    assert await place.left() == ["late"]

    # When an hour has passed
    await place.world.clock.sleep(3600)

    # Then it is gone
    assert await place.left() == []
