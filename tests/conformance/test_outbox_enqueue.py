"""Enqueueing in an application's own transaction: its rows and the message, or neither."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from headgate import App
from headgate.base.errors import Conflict, InvalidInput
from headgate.base.secret import Secret
from headgate.model.states import DeliveryState
from headgate.model.target import Target, Topic
from headgate.ports.outbox import DeliveryFilter
from headgate.store.sql.tables import messages
from tests import stores
from tests.conformance.callers import PLAIN, WAYS, Caller, sqlalchemy_engine, sqlite_file
from tests.conformance.databases import shared_fixture

ORDER = {"id": 1, "total": "9.90"}
TARGETS = [
    Target(name=name, url=f"http://{name}.example.com", key=Secret("k"))
    for name in ("local", "staging")
]


@shared_fixture()
async def app(address: str) -> AsyncIterator[App]:
    """An application with orders of its own, and messages about them."""
    topic = Topic(name="orders", path="/v1/orders", targets=("local", "staging"))
    async with App(address, topics=[topic], targets=TARGETS) as app:
        await app._database.write(
            lambda tx: tx.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)"))
        )
        yield app


@pytest.fixture
def kind(address: str) -> str:
    """Which database it is."""
    return "sqlite" if address.startswith("sqlite") else "postgres"


def calling(address: str, kind: str, way: str = "") -> AbstractContextManager[Caller]:
    """An application's connection, by default that of the plain driver."""
    opened: AbstractContextManager[Caller] = WAYS[kind][way or PLAIN[kind]](address)
    return opened


async def stored(app: App) -> tuple[int, int, int]:
    """How many orders, messages and deliveries there are for everybody to see."""

    def count(tx: Connection) -> tuple[int, int]:
        orders: int = tx.execute(text("SELECT count(*) FROM orders")).scalar_one()
        return orders, tx.execute(select(func.count()).select_from(messages)).scalar_one()

    return *await app._database.read(count), len(await app.outbox.list(limit=1000))


every_way = pytest.mark.parametrize(
    ("address", "way"), [(kind, way) for kind in WAYS for way in WAYS[kind]], indirect=["address"]
)
on_sqlite = pytest.mark.parametrize("address", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("address", ["postgres"], indirect=True)


# ---- together, or not at all -------------------------------------------------------------------


@every_way
async def test_an_order_and_its_message_are_there_once_the_caller_commits_and_not_if_it_rolls_back(
    app: App, address: str, kind: str, way: str
) -> None:
    with calling(address, kind, way) as caller:
        # Given an order and a message about it that were rolled back, and the same again
        caller.execute("INSERT INTO orders (id) VALUES (1)")
        app.outbox.enqueue(caller.tx, "orders", ORDER)
        caller.rollback()
        caller.execute("INSERT INTO orders (id) VALUES (1)")
        message_id = app.outbox.enqueue(
            caller.tx, "orders", ORDER, run_id="run_1", user_id="user_1"
        )
        # Then nobody sees either
        assert await stored(app) == (0, 0, 0)

        # When the caller commits
        caller.commit()

    # Then all is there, as it was given
    assert await stored(app) == (1, 1, 2)
    message = await app.outbox.get_message(message_id, user_id="user_1")
    assert (message.payload, message.intact) == ('{"id":1,"total":"9.90"}', True)
    assert (message.key, message.run_id) == (message_id, "run_1")
    for each in await app.outbox.list(DeliveryFilter(message_id=message_id), limit=10):
        assert (each.state, each.attempts, each.user_id) == (DeliveryState.PENDING, 0, "user_1")
        assert each.created_at == each.next_attempt_at == message.created_at
    # And it can be claimed at once
    claimed = await app._outbox_store.claim(
        "staging", ["orders"], limit=10, lease=stores.LEASE, worker="w"
    )
    assert [each.message for each in claimed] == [message]


async def test_a_key_of_another_user_is_refused_and_nothing_of_theirs_is_told(app: App) -> None:
    first = await app.outbox.submit("orders", ORDER, key="k", user_id="ann")
    for payload in (ORDER, {"id": 2}):
        with pytest.raises(Conflict, match="a message of another user") as refused:
            await app.outbox.submit("orders", payload, key="k", user_id="bob")
        assert first not in str(refused.value) and "ann" not in str(refused.value)
    assert {each.user_id for each in await app.outbox.list(limit=10)} == {"ann"}


@on_sqlite
async def test_a_connection_to_another_database_is_refused_by_name(
    app: App, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        with pytest.raises(InvalidInput, match=r"^tx: .*not the app's database"):
            app.outbox.enqueue(other, "orders", ORDER)


@every_way
async def test_the_same_key_is_the_same_message(
    app: App, address: str, kind: str, way: str
) -> None:
    with calling(address, kind, way) as caller:
        # Given a message that is enqueued twice, and once more in a later transaction
        first = app.outbox.enqueue(caller.tx, "orders", ORDER, key="order-1", targets=["local"])
        again = app.outbox.enqueue(caller.tx, "orders", ORDER, key="order-1", targets=["local"])
        caller.commit()
        later = app.outbox.enqueue(caller.tx, "orders", ORDER, key="order-1", targets=["local"])
        caller.commit()
        assert first == again == later
        assert await stored(app) == (0, 1, 1)

        # When it goes to another target, then it is the same message
        assert first == app.outbox.enqueue(caller.tx, "orders", ORDER, key="order-1")
        caller.commit()
        assert await stored(app) == (0, 1, 2)

        # And another payload under its key is refused
        with pytest.raises(Conflict, match=f"another payload .message {first}"):
            app.outbox.enqueue(caller.tx, "orders", {"id": 2}, key="order-1")
        caller.rollback()
    assert await stored(app) == (0, 1, 2)


# ---- what is refused ---------------------------------------------------------------------------


def refuses(app: App, tx: Any, saying: str) -> None:
    with pytest.raises(InvalidInput, match=saying):
        app.outbox.enqueue(tx, "orders", ORDER)


NO_TRANSACTION = "tx: the connection commits every statement by itself.*begin a transaction first"


async def test_a_connection_that_commits_every_statement_is_refused(
    app: App, address: str, kind: str
) -> None:
    with ExitStack() as closing:
        by_itself: list[Any] = [
            closing.enter_context(
                closing.enter_context(
                    sqlalchemy_engine(address, isolation_level="AUTOCOMMIT")
                ).connect()
            ),
            closing.enter_context(
                closing.enter_context(sqlalchemy_engine(address)).connect()
            ).execution_options(isolation_level="AUTOCOMMIT"),
        ]
        plain: Any
        if kind == "sqlite":
            plain = sqlite3.connect(sqlite_file(address), isolation_level=None)
            closing.callback(plain.close)
        else:
            plain = closing.enter_context(psycopg.connect(address, autocommit=True))
        for each in (*by_itself, plain):
            refuses(app, each, NO_TRANSACTION)

        # But not once it has begun one by hand
        plain.execute("BEGIN")
        app.outbox.enqueue(plain, "orders", ORDER)
        plain.execute("COMMIT")
    assert await stored(app) == (0, 1, 2)


class NewerConnection(sqlite3.Connection):
    """As sqlite3's connection is since Python 3.12, which says in two ways that it commits."""

    autocommit = True


@on_sqlite
async def test_a_newer_sqlite3_that_commits_every_statement_is_refused(
    app: App, address: str
) -> None:
    connection = sqlite3.connect(sqlite_file(address), factory=NewerConnection)
    try:
        refuses(app, connection, NO_TRANSACTION)
    finally:
        connection.close()


async def test_what_is_no_connection_or_asynchronous_is_refused_with_the_way_that_works(
    app: App,
) -> None:
    refuses(app, app, "tx: App is not a connection: pass one of SQLAlchemy, sqlite3 or psycopg")
    refuses(app, AsyncSession(), r"it is asynchronous: await tx.run_sync\(")


@on_postgres
async def test_an_asynchronous_connection_of_psycopg_is_refused(app: App, address: str) -> None:
    connection = await psycopg.AsyncConnection.connect(address)
    async with connection:
        refuses(app, connection, "psycopg's asynchronous connection is not supported")


@on_postgres
async def test_an_asynchronous_session_enqueues_by_run_sync(app: App, address: str) -> None:
    engine = create_async_engine(make_url(address).set(drivername="postgresql+asyncpg"))
    try:
        async with AsyncSession(engine) as session:
            await session.execute(text("INSERT INTO orders (id) VALUES (1)"))
            await session.run_sync(lambda tx: app.outbox.enqueue(tx, "orders", ORDER))
            await session.rollback()
            assert await stored(app) == (0, 0, 0)

            await session.execute(text("INSERT INTO orders (id) VALUES (1)"))
            await session.run_sync(lambda tx: app.outbox.enqueue(tx, "orders", ORDER))
            await session.commit()
            assert await stored(app) == (1, 1, 2)
    finally:
        await engine.dispose()


# ---- at the same time --------------------------------------------------------------------------


@pytest.mark.parametrize("first_commits", [True, False])
async def test_of_two_at_once_with_one_key_the_second_waits_for_the_first(
    app: App, address: str, kind: str, first_commits: bool
) -> None:
    with calling(address, kind) as first, calling(address, kind) as second:
        # Given a message that is not committed yet
        first_id = app.outbox.enqueue(first.tx, "orders", ORDER, key="order-1")

        # When another transaction enqueues the same
        def enqueue() -> str:
            message_id = app.outbox.enqueue(second.tx, "orders", ORDER, key="order-1")
            second.commit()
            return message_id

        waiting = asyncio.create_task(asyncio.to_thread(enqueue))
        if kind == "postgres":
            await stores.until_one_waits(address)
        (first.commit if first_commits else first.rollback)()

        # Then it is the first's, if there is one in the end
        second_id = await waiting
        assert (second_id == first_id) is first_commits
        assert await stored(app) == (0, 1, 2)


async def test_many_at_once_with_one_key_make_one_message(
    app: App, address: str, kind: str
) -> None:
    def enqueue() -> str:
        with calling(address, kind) as caller:
            message_id = app.outbox.enqueue(caller.tx, "orders", ORDER, key="order-1")
            caller.commit()
            return message_id

    ids = await asyncio.gather(*(asyncio.to_thread(enqueue) for _ in range(8)))

    assert len(set(ids)) == 1
    assert await stored(app) == (0, 1, 2)


@on_postgres
@pytest.mark.fault(29)
async def test_a_message_that_is_committed_late_is_sent_although_newer_ones_were(
    app: App, address: str, kind: str
) -> None:
    async def claim() -> list[str]:
        lease = timedelta(seconds=60)
        claimed = await app._outbox_store.claim(
            "local", ("orders",), limit=10, lease=lease, worker="w"
        )
        return [each.delivery.message_id for each in claimed]

    with calling(address, kind) as slow, calling(address, kind) as quick:
        # Given a message whose transaction is open while a newer one is committed and claimed
        late = app.outbox.enqueue(slow.tx, "orders", ORDER, key="order-1")
        newer = app.outbox.enqueue(quick.tx, "orders", ORDER, key="order-2")
        quick.commit()
        assert late < newer
        assert await claim() == [newer]

        # When the older one is committed
        slow.commit()

    # Then it is claimed too: messages are found by their state, and not after a number
    assert await claim() == [late]


# ---- a full disk -------------------------------------------------------------------------------


@on_sqlite
@pytest.mark.parametrize("grows", ["message", "order"])
async def test_a_full_disk_leaves_neither_the_order_nor_the_message(
    app: App, address: str, grows: str
) -> None:
    connection = sqlite3.connect(sqlite_file(address))
    try:
        # Given a disk with room for a little more
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 10}")
        big = "x" * 200_000

        # When an order and its message do not fit
        with pytest.raises(sqlite3.OperationalError, match="full"), connection:
            if grows == "message":
                connection.execute("INSERT INTO orders (id) VALUES (1)")
                app.outbox.enqueue(connection, "orders", {"note": big})
            else:
                app.outbox.enqueue(connection, "orders", ORDER)
                connection.execute("INSERT INTO orders VALUES (1, ?)", (big,))

        # Then neither is there
        assert await stored(app) == (0, 0, 0)
        # And with room again both are
        connection.execute("PRAGMA max_page_count = 1000000")
        with connection:
            connection.execute("INSERT INTO orders VALUES (1, ?)", (big,))
            app.outbox.enqueue(connection, "orders", {"note": big})
        assert await stored(app) == (1, 1, 2)
    finally:
        connection.close()
