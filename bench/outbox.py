"""The outbox: deliveries a second beside a bare client that posts the same bodies, and enqueueing.

The receiver is another process. It reads each body and answers at once, so what is measured is the
sender: the bare client forgets what it has sent, the outbox keeps it durably.
"""

import asyncio
import multiprocessing
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from statistics import median

import aiohttp
from aiohttp import web

from bench.report import Report, console, is_quick
from bench.workload import addresses
from headgate import App, DrainScope, Secret, Target, Topic, to_json
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock

PATH = "/v1/prices"
#: Requests at once, of the bare client and of the outbox.
AT_ONCE = 8
#: As a worker's that has much to send.
BATCH = 200
ROUNDS = 5
TOPIC = Topic(name="prices", path=PATH, targets=("bench",))


def main() -> None:
    """Run everything and print it."""
    quick = is_quick(__doc__ or "")
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("outbox")
    count = 1_000 if quick else 5_000
    with addresses() as found, receiver() as url:
        for name, address in found.items():
            console.print(f"[bold]{name}[/]")
            event_loop.run(measure(report, name, address, url, count=count))
    report.print()


@contextmanager
def receiver() -> Iterator[str]:
    """Another process that takes what is posted; its address."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_receive, args=(there,), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def _receive(ready: Connection) -> None:
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
        ready.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await asyncio.Event().wait()

    asyncio.run(serve())


def _payload(number: int) -> dict[str, object]:
    row = {
        "runId": "run-1",
        "productId": f"product-{number}",
        "sourceId": "shop",
        "scrapedAt": "2026-01-01T12:00:00Z",
        "price": 9.99,
        "currency": "EUR",
    }
    return {"normalized": [row] * 5}


async def measure(report: Report, name: str, address: str, url: str, *, count: int) -> None:
    """Post bare and by the outbox, in turns; the median of each."""
    target = Target(name="bench", url=url, key=Secret("k" * 32), concurrency=AT_ONCE)
    bodies = [to_json(_payload(number)).encode() for number in range(count)]
    bare, drained, enqueued = [], [], []
    app = App(address, topics=[TOPIC], targets=[target])
    await app.migrate()
    async with app:
        await post(url, bodies[: count // 10])
        for _ in range(ROUNDS):
            bare.append(await post(url, bodies))
            enqueued.append(await enqueue(app, count))
            began = time.perf_counter()
            result = await app.outbox.drain(target, DrainScope(batch=BATCH))
            assert result.sent == count, result
            drained.append(count / (time.perf_counter() - began))
    ratios = [ours / theirs for ours, theirs in zip(drained, bare, strict=True)]
    report.add(f"{name}_bare_per_s", median(bare), "requests/s", f", {AT_ONCE} at once")
    report.add(f"{name}_drain_per_s", median(drained), "deliveries/s", ", durably")
    report.add(f"{name}_drain_ratio_to_bare", median(ratios), "of bare")
    report.add(f"{name}_enqueue_us", median(enqueued), "µs", ", inside the caller's transaction")
    if name == "sqlite":
        plain = [enqueue_plain(app, address, count) for _ in range(ROUNDS)]
        report.add("sqlite3_enqueue_us", median(plain), "µs", ", on a plain sqlite3 connection")
        own = [insert_own(address, count) for _ in range(ROUNDS)]
        report.add("sqlite3_own_row_us", median(own), "µs", ", the caller's own row, to compare")


async def post(url: str, bodies: list[bytes]) -> float:
    """Post all bodies with a bare client; requests a second."""
    left = iter(bodies)
    headers = {"content-type": "application/json", "x-api-key": "k" * 32}
    async with aiohttp.ClientSession() as session:

        async def send() -> None:
            for number, body in enumerate(left):
                key = {"idempotency-key": f"message-{number}"}
                async with session.post(f"{url}{PATH}", data=body, headers=headers | key) as answer:
                    assert answer.status == 201
                    await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
        return len(bodies) / (time.perf_counter() - began)


async def enqueue(app: App, count: int) -> float:
    """Enqueue so many messages, a hundred in each transaction; microseconds for each."""
    spent = 0.0
    numbers = iter(range(count))
    while some := list(islice(numbers, 100)):

        def write(tx: object, some: list[int] = some) -> float:
            began = time.perf_counter()
            for number in some:
                app.outbox.enqueue(tx, "prices", _payload(number), wake=False)
            return time.perf_counter() - began

        spent += await app.write(write)
    return spent / count * 1e6


def enqueue_plain(app: App, address: str, count: int) -> float:
    """The same on a connection of sqlite3."""
    with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as db:
        began = time.perf_counter()
        for number in range(count):
            app.outbox.enqueue(db, "prices", _payload(number))
        spent = time.perf_counter() - began
        db.rollback()
    return spent / count * 1e6


def insert_own(address: str, count: int) -> float:
    """Insert so many rows with the same payload into a table of the caller's own."""
    with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as db:
        db.execute("CREATE TABLE IF NOT EXISTS own (id TEXT PRIMARY KEY, payload TEXT)")
        db.commit()
        began = time.perf_counter()
        for number in range(count):
            db.execute("INSERT INTO own VALUES (?, ?)", (str(number), to_json(_payload(number))))
        spent = time.perf_counter() - began
        db.rollback()
    return spent / count * 1e6


if __name__ == "__main__":
    main()
