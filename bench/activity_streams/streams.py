"""Streams: how an hour of nine channels is best kept, and how fast it is stored and served."""

import asyncio
import gzip
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import asyncpg
import msgspec
from fastapi import FastAPI

from bench.report import Report, console, is_quick
from bench.workload import addresses
from headgate import App
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock
from headgate.connectors.strava.streams import streams_document
from headgate.model import item as change
from headgate.model.item import Document
from headgate.ports.items import NewItem
from headgate.secrets.keys import KeyRing
from headgate.store.sql import schema
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.store.sql.items.packing import LEVEL
from headgate.store.sql.items.store import SqlItems
from headgate.systems.activity_streams.names import COLLECTION
from headgate.toolkit.api.limits import Limits
from headgate.web.server import build
from tests.conformance.crowds import STREAMS, fill_items
from tests.systems.activity_streams.test_api import streams

POINTS = 3_600
LEASE = timedelta(minutes=5)
#: Requests that ask at the same time, as a busy server's do.
AT_ONCE = 10
#: Rounds of the bare drivers, for each way to keep a document.
ROUNDS = 5
#: Rounds of serving: short ones, of which one is left alone by whatever else the machine does.
SERVE_ROUNDS = 20

One = Callable[[int], Awaitable[object]]


def main() -> None:
    """Run everything and print it."""
    quick = is_quick(__doc__ or "")
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("streams")
    documents = [an_hour(seed) for seed in range(20)]
    packing(report, [each.body for each in documents])
    with addresses() as found:
        for name, address in found.items():
            event_loop.run(measure(report, name, address, documents, quick=quick))
    report.print()


def an_hour(seed: int) -> Document:
    """A run of an hour, point by point: nine channels that wander as measured ones do."""
    rng = Random(seed)

    def wander(start: float, step: float, digits: int) -> list[float]:
        values = [start]
        for _ in range(POINTS - 1):
            values.append(values[-1] + rng.gauss(0, step))
        return [round(each, digits) for each in values]

    speeds = [max(0.5, 3 + rng.gauss(0, 0.4)) for _ in range(POINTS)]
    metres = 0.0
    distance = []
    for speed in speeds:
        metres += speed
        distance.append(round(metres, 1))
    places = zip(wander(52.5, 2e-5, 6), wander(13.4, 3e-5, 6), strict=True)
    channels: dict[str, list[object]] = {
        "time": list(range(POINTS)),
        "distance": list(distance),
        "latlng": [[lat, lng] for lat, lng in places],
        "altitude": list(wander(120, 0.2, 1)),
        "velocity_smooth": [round(speed, 2) for speed in speeds],
        "heartrate": [round(each) for each in wander(145, 0.7, 1)],
        "cadence": [round(each) for each in wander(84, 0.5, 1)],
        "temp": [round(each) for each in wander(18, 0.05, 1)],
        "grade_smooth": list(wander(0, 0.3, 1)),
    }
    return streams_document(channels)


def packing(report: Report, texts: list[bytes]) -> None:
    """What the levels of gzip cost and bring, on average."""
    report.add("json_bytes_per_activity", mean(len(each) for each in texts), "bytes", ", plain")
    for level in (1, LEVEL, 6, 9):
        began = time.perf_counter()
        made = [gzip.compress(each, level, mtime=0) for each in texts]
        spent_s = (time.perf_counter() - began) / len(texts)
        report.add(f"gzip{level}_bytes", mean(len(each) for each in made), "bytes")
        report.add(f"gzip{level}_ms", 1000 * spent_s, "ms to pack")


async def measure(
    report: Report, name: str, address: str, documents: list[Document], *, quick: bool
) -> None:
    """One database: the ways to keep a document with the bare driver, then ours next to it."""
    console.print(f"[bold]{name}[/]: an hour of nine channels")
    database = await opened(address)
    try:
        texts = [each.body.decode() for each in documents]
        bare: Bare = (
            BarePostgres(database.dsn)
            if isinstance(database, PostgresDatabase)
            else BareSqlite(str(database.path))
        )
        count = 40 if quick else 200
        bare_write = 0.0
        for kept in bare.kinds:
            written = await bare.write(kept, texts, count)
            read = await bare.read(kept, count)
            size = await bare.bytes_of(kept)
            report.add(f"{name}_{kept}_bytes_per_activity", size, "bytes", ", as stored")
            report.add(f"{name}_{kept}_bare_write_per_s", written, "documents/s", ", bare driver")
            report.add(f"{name}_{kept}_bare_read_per_s", read, "documents/s", ", bare driver")
            bare_write = written if kept == "gzip" else bare_write
        items = SqlItems(database)
        rate = await store_rate(items, documents, count)
        report.add(f"{name}_write_per_s", rate, "documents/s", ", claimed, packed and settled")
        report.add(f"{name}_write_ratio_to_bare", rate / bare_write, "of bare")
        await serve_rates(report, name, items, bare, 50 if quick else 200)
        await bare.close()
        await at_scale(report, name, items, 50_000 if quick else 1_000_000)
    finally:
        await database.close()


async def opened(address: str) -> PostgresDatabase | SqliteDatabase:
    """An empty, migrated database."""
    clock = SystemClock()
    database: PostgresDatabase | SqliteDatabase = (
        PostgresDatabase(address, clock)
        if address.startswith("postgres")
        else SqliteDatabase(Path(address.removeprefix("sqlite:///")), clock)
    )
    await database.open()
    await schema.migrate(database)
    return database


# ---- ours --------------------------------------------------------------------------------------


async def store_rate(items: SqlItems, documents: list[Document], count: int) -> float:
    """Items claimed and settled with a document, one after another as a worker does."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    await items.register(
        [
            NewItem(
                id=f"bench_{number}",
                collection=COLLECTION,
                user_id="user",
                connection_id="connection",
                external_id=str(number),
                start_time=start + timedelta(minutes=number),
            )
            for number in range(count)
        ]
    )
    began = time.perf_counter()
    done = 0
    while taken := await items.claim(COLLECTION, "connection", limit=10, lease=LEASE, worker="w"):
        for item in taken:
            await items.settle_many([(change.succeed(item), documents[done % len(documents)])])
            done += 1
    assert done == count
    return count / (time.perf_counter() - began)


async def serve_rates(report: Report, name: str, items: SqlItems, bare: "Bare", count: int) -> None:
    """Documents served a second, by the store and by the endpoint, next to the bare row."""
    stored = (await items.count_items(COLLECTION)).states
    there = max(stored.values())
    endpoint = await Endpoint.of(items.database)

    async def serve(number: int) -> None:
        served = await items.serve(f"bench_{number % there}", user_id="user")
        assert served.document is not None and served.document.encoding == "gzip"

    async def answer(number: int) -> None:
        assert await endpoint.streams(f"bench_{number % there}") == 200

    async def nothing(_: int) -> None:
        assert await endpoint.streams("nobody's") == 404

    async def plain(number: int) -> None:
        assert await bare.served(f"bench_{number % there}")

    ours = {"serve": serve, "endpoint": answer, "endpoint_not_found": nothing}
    for at_once in (AT_ONCE, 1):
        # In turn and often, and the best of each: whatever else the machine does meets all.
        asked: dict[str, One] = {**ours, "bare": plain}
        rounds = [
            {title: await rate_of(ask, count, at_once) for title, ask in asked.items()}
            for _ in range(SERVE_ROUNDS)
        ]
        best = {title: max(each[title] for each in rounds) for title in asked}
        note = f", {at_once} at once" if at_once > 1 else ", one by one"
        prefix = name if at_once > 1 else f"{name}_single"
        report.add(f"{prefix}_serve_bare_per_s", best["bare"], "documents/s", f", bare row{note}")
        for title in ours:
            report.add(f"{prefix}_{title}_per_s", best[title], "answers/s", note)
            ratio = best["bare"] / best[title]
            report.add(f"{prefix}_{title}_ratio_to_bare", ratio, "times the bare read's time")


class Endpoint:
    """`GET /v1/activities/{id}/streams`, asked in this process as a server asks it."""

    def __init__(self, web: FastAPI, key: str) -> None:
        """Ask `web`, with the API key."""
        self._web = web
        self._headers = [
            (b"host", b"bench"),
            (b"authorization", f"Bearer {key}".encode()),
            (b"accept-encoding", b"gzip"),
        ]

    @staticmethod
    async def of(database: Database) -> "Endpoint":
        """The endpoint of an application on that database, with a key of the user's."""
        app = App(database, systems=[streams()])
        web = build(app, keys=KeyRing.for_demo())
        # One key asks more often here than any may.
        wide = Limits(app.clock, per_min=10**9)
        web.state.api = msgspec.structs.replace(web.state.api, limits=wide)
        _, key = await app.api_keys.make("bench", role="user", user_id="user")
        return Endpoint(web, key.reveal())

    async def streams(self, activity_id: str) -> int:
        """The status of the answer, whose body was read to its end."""
        path = f"/v1/activities/{activity_id}/streams"
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": self._headers,
            "client": ("127.0.0.1", 1),
            "server": ("bench", 80),
        }
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._web(scope, receive, send)
        return int(sent[0]["status"])


async def rate_of(one: One, count: int, at_once: int) -> float:
    """How many a second, so many at once."""
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await one(number)

    await one(0)
    began = time.perf_counter()
    await asyncio.gather(*[some() for _ in range(at_once)])
    return count / (time.perf_counter() - began)


async def at_scale(report: Report, name: str, items: SqlItems, rows: int) -> None:
    """A claim and the counts among many items."""
    await items.database.write(partial(fill_items, rows=rows))
    if isinstance(items.database, PostgresDatabase):
        await vacuum(items.database)
    note = f", among {rows:,}"

    async def claim_and_release() -> None:
        taken = await items.claim(STREAMS, "connection_7", limit=10, lease=LEASE, worker="w")
        assert len(taken) == 10
        await items.settle_many([(change.release(item), None) for item in taken])

    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "claim_and_release_10": claim_and_release,
        "next_due": lambda: items.next_due_s(STREAMS, "connection_7"),
        "census": lambda: items.count_items(STREAMS),
        "progress": lambda: items.progress(STREAMS, "user_9"),
        "stuck": lambda: items.count_stuck(STREAMS),
        "limited": lambda: items.count_limited(STREAMS, within=timedelta(days=1)),
    }
    for what, ask in asked.items():
        await ask()
        began = time.perf_counter()
        for _ in range(ROUNDS):
            await ask()
        spent_ms = 1000 * (time.perf_counter() - began) / ROUNDS
        report.add(f"{name}_{what}_ms", spent_ms, "ms", note)


async def vacuum(database: PostgresDatabase) -> None:
    """As the server does by itself after a while."""
    connection = await asyncpg.connect(database.dsn)
    await connection.execute("VACUUM ANALYZE headgate_items")
    await connection.close()


# ---- the bare drivers --------------------------------------------------------------------------


_SERVE = """
SELECT body, state, media_type, attributes, fetched_at, hash, encoding
FROM headgate_items AS items
LEFT JOIN headgate_item_documents ON item_id = items.id AND state = 'success'
WHERE items.id = {} AND user_id = {}
"""


class Bare:
    """One table for each way to keep a document; durable, one row a transaction."""

    kinds: tuple[str, ...] = ("json", "gzip")

    async def write(self, kept: str, texts: list[str], count: int) -> float:
        """Documents written a second."""
        raise NotImplementedError

    async def read(self, kept: str, count: int) -> float:
        """Documents read a second, as what is sent to a client."""
        raise NotImplementedError

    async def bytes_of(self, kept: str) -> float:
        """What one takes on disk."""
        raise NotImplementedError

    async def served(self, item_id: str) -> bytes | None:
        """The row that we serve, and nothing made of it."""
        raise NotImplementedError

    async def close(self) -> None:
        """Disconnect."""
        raise NotImplementedError


def packed(kept: str, document: str) -> str | bytes:
    """A document as it is kept that way."""
    return gzip.compress(document.encode(), LEVEL, mtime=0) if kept == "gzip" else document


class BareSqlite(Bare):
    """One connection, in the loop's own thread."""

    def __init__(self, file: str) -> None:
        """Open the file."""
        self._file = file
        self._of_thread = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = FULL").close()

    async def write(self, kept: str, texts: list[str], count: int) -> float:
        """Documents written a second."""
        run = self._connection.execute
        run(f"CREATE TABLE bare_{kept} (id INTEGER PRIMARY KEY, body)")
        began = time.perf_counter()
        for number in range(count):
            body = packed(kept, texts[number % len(texts)])
            run(f"INSERT INTO bare_{kept} VALUES (?, ?)", (number, body))
        return count / (time.perf_counter() - began)

    async def read(self, kept: str, count: int) -> float:
        """Documents read a second."""
        began = time.perf_counter()
        for number in range(count):
            query = f"SELECT body FROM bare_{kept} WHERE id = ?"
            with closing(self._connection.execute(query, (number,))) as cursor:
                assert cursor.fetchone()[0]
        return count / (time.perf_counter() - began)

    async def bytes_of(self, kept: str) -> float:
        """The length of the body: SQLite keeps it as it is, on pages of its own."""
        query = f"SELECT avg(length(body)) FROM bare_{kept}"
        return float(self._connection.execute(query).fetchone()[0])

    async def served(self, item_id: str) -> bytes | None:
        """In a thread, as every read of a server's must be."""
        return await asyncio.to_thread(self._body, item_id)

    def _body(self, item_id: str) -> bytes | None:
        if not hasattr(self._of_thread, "connection"):
            self._of_thread.connection = sqlite3.connect(self._file, check_same_thread=False)
            self._readers.append(self._of_thread.connection)
        query = _SERVE.format("?", "?")
        with closing(self._of_thread.connection.execute(query, (item_id, "user"))) as cursor:
            return bytes(cursor.fetchone()[0])

    async def close(self) -> None:
        """Disconnect."""
        for connection in (self._connection, *self._readers):
            connection.close()


class BarePostgres(Bare):
    """A pool as large as ours."""

    kinds = ("json", "jsonb", "gzip")

    def __init__(self, dsn: str) -> None:
        """Connect when first asked."""
        self._dsn = dsn
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    async def pool(self) -> "asyncpg.Pool[asyncpg.Record]":
        """The pool, made when first asked for."""
        if self._pool is None:
            self._pool = await asyncpg.create_pool(self._dsn, min_size=AT_ONCE, max_size=AT_ONCE)
        return self._pool

    async def write(self, kept: str, texts: list[str], count: int) -> float:
        """Documents written a second."""
        pool = await self.pool()
        kind = {"json": "text", "jsonb": "jsonb", "gzip": "bytea"}[kept]
        await pool.execute(f"CREATE TABLE bare_{kept} (id INTEGER PRIMARY KEY, body {kind})")
        began = time.perf_counter()
        async with pool.acquire() as connection:
            for number in range(count):
                body = packed(kept, texts[number % len(texts)])
                await connection.execute(f"INSERT INTO bare_{kept} VALUES ($1, $2)", number, body)
        return count / (time.perf_counter() - began)

    async def read(self, kept: str, count: int) -> float:
        """Documents read a second."""
        pool = await self.pool()
        began = time.perf_counter()
        async with pool.acquire() as connection:
            for number in range(count):
                query = f"SELECT body FROM bare_{kept} WHERE id = $1"
                assert await connection.fetchval(query, number)
        return count / (time.perf_counter() - began)

    async def bytes_of(self, kept: str) -> float:
        """What the table takes with its large values, which Postgres may compress by itself."""
        pool = await self.pool()
        query = f"SELECT pg_total_relation_size('bare_{kept}')::float8 / count(*) FROM bare_{kept}"
        return float(await pool.fetchval(query))

    async def served(self, item_id: str) -> bytes | None:
        """The row, on a connection of the pool."""
        pool = await self.pool()
        body: bytes | None = await pool.fetchval(_SERVE.format("$1", "$2"), item_id, "user")
        return body

    async def close(self) -> None:
        """Disconnect."""
        if self._pool is not None:
            await self._pool.close()


if __name__ == "__main__":
    main()
