"""The two examples together: a shop enqueues orders, and a warehouse takes each of them once."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from examples import orders_outbox, warehouse
from headgate import App, SystemClock
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import DrainResult
from tests.connecting import Wire

TARGET = orders_outbox.app.outbox.targets.get("warehouse")


class Shop:
    """The example's app on a file of its own, and the warehouse behind it."""

    def __init__(self, app: App, folder: Path, wire: Wire) -> None:
        self.app = app
        self.wire = wire
        self._folder = folder

    def received(self) -> dict[str, bytes]:
        """What the warehouse has, by key."""
        with sqlite3.connect(self._folder / "warehouse.db") as db:
            return dict(db.execute("SELECT key, body FROM received"))

    async def drain(self) -> DrainResult:
        """Send what waits."""
        return await self.app.outbox.drain(TARGET)


@pytest.fixture
async def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    """A shop with a table of orders, and a warehouse that knows its key."""
    monkeypatch.chdir(tmp_path)
    place = warehouse.warehouse(tmp_path / "warehouse.db", TARGET.secrets[0].reveal())
    clock = SystemClock()
    wire = Wire(AsgiTransport({TARGET.url: place}, clock))
    topics = orders_outbox.app.outbox.targets.topics.values()
    app = App(
        f"sqlite:///{orders_outbox.DATABASE}", topics=topics, targets=[TARGET], transport=wire
    )
    async with app:
        with sqlite3.connect(orders_outbox.DATABASE) as db:
            db.execute(orders_outbox.ORDERS)
        yield Shop(app, tmp_path, wire)


async def test_an_order_and_its_message_are_written_together(shop: Shop) -> None:
    orders_outbox.order_with_sqlite3(shop.app.outbox, "order-1", "chair")
    engine = create_engine(f"sqlite:///{orders_outbox.DATABASE}")
    with Session(engine) as session:
        orders_outbox.order_with_sqlalchemy(shop.app.outbox, session, "order-2", "table")
    engine.dispose()
    assert (await shop.drain()).sent == 2
    assert shop.received() == {
        "order-1": b'{"article":"chair","id":"order-1"}',
        "order-2": b'{"article":"table","id":"order-2"}',
    }


async def test_an_order_that_fails_sends_nothing(shop: Shop) -> None:
    orders_outbox.order_with_sqlite3(shop.app.outbox, "order-1", "chair")
    with pytest.raises(sqlite3.IntegrityError):
        orders_outbox.order_with_sqlite3(shop.app.outbox, "order-1", "table")
    assert (await shop.drain()).sent == 1
    assert shop.received() == {"order-1": b'{"article":"chair","id":"order-1"}'}


async def test_an_order_can_be_sent_at_once(shop: Shop) -> None:
    await orders_outbox.order_and_send(shop.app, "order-1", "lamp")
    assert list(shop.received()) == ["order-1"]


async def test_the_warehouse_takes_a_message_once_however_often_it_comes(shop: Shop) -> None:
    orders_outbox.order_with_sqlite3(shop.app.outbox, "order-1", "chair")
    await shop.drain()
    again = [shop.wire.send(shop.wire.sent[0]) for _ in range(5)]
    assert {each.status for each in await asyncio.gather(*again)} == {201}
    other = msgspec.structs.replace(shop.wire.sent[0], body=b"{}")
    assert (await shop.wire.send(other)).status == 422
    assert len(shop.received()) == 1


@pytest.mark.parametrize(("dropped", "status"), [("x-api-key", 401), ("idempotency-key", 400)])
async def test_the_warehouse_says_what_is_missing(shop: Shop, dropped: str, status: int) -> None:
    orders_outbox.order_with_sqlite3(shop.app.outbox, "order-1", "chair")
    await shop.drain()
    sent = shop.wire.sent[0]
    without = msgspec.structs.replace(sent, headers=sent.headers.without(dropped))
    assert (await shop.wire.send(without)).status == status
