"""The outbox: deliveries a second beside a bare client that posts the same bodies, and enqueueing.

The bare client forgets what it has sent; the outbox keeps it durably. Both send to another process:
`examples/warehouse.py`, which stores each message durably, as a receiver has to; and one that only
reads the body and answers at once, which shows what the sender itself costs, and nothing else.
"""

import asyncio
import multiprocessing
import socket
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count as numbers_from
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp
import uvicorn
from aiohttp import web

from bench.report import Report, console, is_quick
from bench.workload import addresses
from examples.warehouse import warehouse
from headgate import App, DrainScope, Secret, Target, Topic
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock
from headgate.toolkit import to_json

PATH = "/v1/orders"
#: Requests at once, of the bare client and of the outbox.
AT_ONCE = 8
#: As a worker's that has much to send.
BATCH = 200
ROUNDS = 5
TOPIC = Topic(name="orders", path=PATH, targets=("bench",))

_runs = numbers_from(1)


class Backend(NamedTuple):
    """A receiver: where it is, and the key that it takes."""

    url: str
    key: str


def main() -> None:
    """Run everything and print it."""
    quick = is_quick(__doc__ or "")
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("outbox")
    count = 500 if quick else 3_000
    with addresses() as found, receiver(store_each) as real, receiver(answer_at_once) as idle:
        for name, address in found.items():
            console.print(f"[bold]{name}[/]")
            event_loop.run(measure(report, name, address, real, count=count))
            event_loop.run(measure(report, f"{name}_idle", address, idle, count=2 * count))
    report.print()


@contextmanager
def receiver(serve: Callable[[Connection], None]) -> Iterator[Backend]:
    """Another process that takes what is posted."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        yield Backend(*here.recv())
    finally:
        process.terminate()
        process.join()


def answer_at_once(ready: Connection) -> None:
    """Read each body, store nothing."""

    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({"accepted": 1, "errors": []}, status=201)

    async def serve() -> None:
        app = web.Application()
        app.router.add_post(PATH, take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ready.send((f"http://127.0.0.1:{runner.addresses[0][1]}", "k" * 32))
        await asyncio.Event().wait()

    event_loop.run(serve())


def store_each(ready: Connection) -> None:
    """Store each message once, durably, as the example of a receiver does."""

    async def serve() -> None:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
            app = warehouse(Path(folder) / "warehouse.db", "k" * 32)
            server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False))
            with socket.create_server(("127.0.0.1", 0)) as listening:
                ready.send((f"http://127.0.0.1:{listening.getsockname()[1]}", "k" * 32))
                await server.serve(sockets=[listening])

    event_loop.run(serve())


def payloads(count: int) -> Sequence[dict[str, object]]:
    """Batches of one run: a page of twenty prices each, none of which was sent before."""
    run_id = f"run-{next(_runs)}"
    return [
        {
            "normalized": [
                {
                    "runId": run_id,
                    "productId": f"product-{page}-{row}",
                    "sourceId": "shop",
                    "scrapedAt": "2026-01-01T12:00:00Z",
                    "price": 9.99,
                    "currency": "EUR",
                }
                for row in range(20)
            ]
        }
        for page in range(count)
    ]


async def measure(report: Report, name: str, address: str, backend: Backend, *, count: int) -> None:
    """Post bare and by the outbox, in turns; the median of each."""
    target = Target(name="bench", url=backend.url, key=Secret(backend.key), concurrency=AT_ONCE)
    bare, drained, enqueued = [], [], []
    app = App(address, topics=[TOPIC], targets=[target])
    await app.migrate()
    async with app:
        await post(backend, payloads(count // 10))
        for _ in range(ROUNDS):
            bare.append(await post(backend, payloads(count)))
            enqueued.append(await enqueue(app, payloads(count)))
            began = time.perf_counter()
            result = await app.outbox.drain(target, DrainScope(batch=BATCH))
            assert result.sent == count, result
            drained.append(count / (time.perf_counter() - began))
    ratios = [ours / theirs for ours, theirs in zip(drained, bare, strict=True)]
    report.add(f"{name}_bare_per_s", median(bare), "requests/s", f", {AT_ONCE} at once")
    report.add(f"{name}_drain_per_s", median(drained), "deliveries/s", ", durably")
    report.add(f"{name}_drain_ratio_to_bare", median(ratios), "of bare")
    if "idle" in name:
        return
    report.add(f"{name}_enqueue_us", median(enqueued), "us", ", inside the caller's transaction")
    if name == "sqlite":
        path = address.removeprefix("sqlite:///")
        plain = [enqueue_plain(app, path, payloads(count)) for _ in range(ROUNDS)]
        report.add("sqlite3_enqueue_us", median(plain), "us", ", on a plain sqlite3 connection")
        own = [insert_own(path, payloads(count)) for _ in range(ROUNDS)]
        report.add("sqlite3_own_row_us", median(own), "us", ", the same payload as an own row")


async def post(backend: Backend, batches: Sequence[dict[str, object]]) -> float:
    """Post all batches with a bare client; requests a second."""
    left = iter([(number, to_json(each).encode()) for number, each in enumerate(batches)])
    run = f"bare-{next(_runs)}"
    headers = {"content-type": "application/json", "x-api-key": backend.key}
    async with aiohttp.ClientSession() as session:

        async def send() -> None:
            for number, body in left:
                key = {"idempotency-key": f"{run}-{number}"}
                async with session.post(
                    f"{backend.url}{PATH}", data=body, headers=headers | key
                ) as answer:
                    assert answer.status == 201, await answer.text()
                    await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
        return len(batches) / (time.perf_counter() - began)


async def enqueue(app: App, batches: Sequence[dict[str, object]]) -> float:
    """Enqueue them, a hundred in each transaction; microseconds for each."""
    spent = 0.0
    for begin in range(0, len(batches), 100):
        some = batches[begin : begin + 100]

        def write(tx: object, some: Sequence[dict[str, object]] = some) -> float:
            began = time.perf_counter()
            for each in some:
                app.outbox.enqueue(tx, TOPIC.name, each, wake=False)
            return time.perf_counter() - began

        spent += await app.write(write)
    return spent / len(batches) * 1e6


def enqueue_plain(app: App, path: str, batches: Sequence[dict[str, object]]) -> float:
    """The same on a connection of sqlite3."""
    with closing(sqlite3.connect(path)) as db:
        began = time.perf_counter()
        for each in batches:
            app.outbox.enqueue(db, TOPIC.name, each)
        spent = time.perf_counter() - began
        db.rollback()
    return spent / len(batches) * 1e6


def insert_own(path: str, batches: Sequence[dict[str, object]]) -> float:
    """Insert as many rows with the same payload into a table of the caller's own."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE IF NOT EXISTS own (id TEXT PRIMARY KEY, payload TEXT)")
        db.commit()
        began = time.perf_counter()
        for number, each in enumerate(batches):
            db.execute("INSERT INTO own VALUES (?, ?)", (str(number), to_json(each)))
        spent = time.perf_counter() - began
        db.rollback()
    return spent / len(batches) * 1e6


if __name__ == "__main__":
    main()
