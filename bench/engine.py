"""The engine: steps a second beside the bare driver, latency under load, claims, idleness."""

import asyncio
import time
from collections import Counter
from datetime import timedelta
from statistics import median

from sqlalchemy import Connection, event, update

from bench import bare
from bench.fast_time import FastClock, run_fast
from bench.report import Report, console, is_quick, percentile
from bench.workload import (
    FILL_AT_ONCE,
    Nothing,
    active,
    addresses,
    fill,
    fill_ended,
    opened,
    settle_down,
)
from headgate import App, Lane, Sync
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock
from headgate.model.states import JOB
from headgate.store.sql.postgres import PostgresDatabase
from headgate.store.sql.tables import jobs

BATCH = 100
LOOK_S = 0.01
ROUNDS = 3
WARM_UP = 500


def main() -> None:
    """Run everything and print it."""
    quick = is_quick(__doc__ or "")
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("engine")
    with addresses() as found:
        for name, address in found.items():
            event_loop.run(throughput(report, name, address, quick=quick))
        event_loop.run(latency(report, found["sqlite"], quick=quick))
        for name, address in found.items():
            event_loop.run(claim_cost(report, name, address, quick=quick))
        idle(report, found["postgres"], quick=quick)
    report.print()


async def throughput(report: Report, name: str, address: str, *, quick: bool) -> None:
    """No-op chunks a second, batched and one by one, and the bare driver doing the same."""
    console.print(f"[bold]{name}[/]: steps a second")
    count = 4_000 if quick else 20_000
    # Twice as many slots as a batch: one half is being written while the other is worked on.
    rate, bare_rate, ratio = await beside_bare(name, address, count, batch=BATCH, slots=2 * BATCH)
    report.add(f"{name}_steps_per_s", rate, "steps/s", f", batches of {BATCH}")
    report.add(f"{name}_bare_per_s", bare_rate, "pairs/s", ", bare driver")
    report.add(f"{name}_ratio_to_bare", ratio, "of bare")
    rate, _, ratio = await beside_bare(name, address, count // 25, batch=1, slots=1)
    report.add(f"{name}_single_steps_per_s", rate, "steps/s", ", one at a time")
    report.add(f"{name}_single_ratio_to_bare", ratio, "of bare")


async def beside_bare(
    name: str, address: str, count: int, *, batch: int, slots: int
) -> tuple[float, float, float]:
    """Our rate, the bare driver's, and the ratio: the middle of a few rounds, one after another."""
    rounds: list[tuple[float, float, float]] = []
    async with opened(address, hot=slots) as app:
        # A worker runs for days: what it compiles in its first second is not its rate.
        await fill(app, WARM_UP)
        await drain(app, WARM_UP)
    for _ in range(ROUNDS):
        async with opened(address, hot=slots) as app:
            await fill(app, count)
            rate = count / await drain(app, count)
        async with opened(address) as app:
            await fill(app, count)
            bare_rate = await bare_loop(name, app, batch)
        rounds.append((rate, bare_rate, rate / bare_rate))
    return (
        median(each[0] for each in rounds),
        median(each[1] for each in rounds),
        median(each[2] for each in rounds),
    )


async def drain(app: App, count: int) -> float:
    """Seconds until so many jobs are done."""
    supervisor = app.supervisor()
    until = Nothing.reads + count
    began = time.perf_counter()
    await supervisor.start()
    while Nothing.reads < until or await active(app):  # noqa: ASYNC110 - the end is in a database
        await asyncio.sleep(LOOK_S)
    took = time.perf_counter() - began
    await supervisor.stop()
    return took


async def bare_loop(name: str, app: App, batch: int) -> float:
    """The bare driver's rate on the same rows."""
    if isinstance(app._database, PostgresDatabase):
        return await bare.postgres_rate(app._database.dsn, batch)
    file = str(getattr(app._database, "path", ""))
    return await asyncio.to_thread(bare.sqlite_rate, file, batch)


async def latency(report: Report, address: str, *, quick: bool) -> None:
    """From submit to done, for live work: alone, and beside ten thousand cold jobs."""
    console.print("[bold]sqlite[/]: live work, alone and beside 10,000 cold jobs")
    rounds = 150 if quick else 500
    async with opened(address) as app:
        supervisor = app.supervisor()
        await supervisor.start()
        lone = [await one_live_job(app, number) for number in range(rounds)]
        await supervisor.stop()
    async with opened(address) as app:
        await fill(app, 10_000, lane=Lane.COLD, sync="slow")
        supervisor = app.supervisor()
        await supervisor.start()
        loaded = [(await one_live_job(app, number))[1] for number in range(rounds)]
        await supervisor.stop()
    alone = [done for _, done in lone]
    report.add(
        "pickup_p50_ms",
        percentile([begun for begun, _ in lone], 0.5) * 1000,
        "ms",
        ", submit to begun, idle",
    )
    report.add("hot_p50_idle_ms", percentile(alone, 0.5) * 1000, "ms", ", submit to done")
    report.add("hot_p99_idle_ms", percentile(alone, 0.99) * 1000, "ms")
    report.add("hot_p99_loaded_ms", percentile(loaded, 0.99) * 1000, "ms", ", 10,000 cold jobs")
    report.add("hot_p99_ratio", percentile(loaded, 0.99) / percentile(alone, 0.99), "loaded / idle")


async def one_live_job(app: App, number: int) -> tuple[float, float]:
    """Seconds from submit until the job is begun, and until it is done."""
    began = time.perf_counter()
    submitted = await app.jobs.submit("work", user_id="live", connection_id=f"live-{number}")
    while (await app.jobs.get(submitted.job.id)).state not in JOB.terminal:
        pass
    return Nothing.began - began, time.perf_counter() - began


async def claim_cost(report: Report, name: str, address: str, *, quick: bool) -> None:
    """What a claim of ten costs as the table grows."""
    console.print(f"[bold]{name}[/]: cost of a claim")
    sizes = (1_000, 100_000) if quick else (1_000, 100_000, 1_000_000)
    costs: list[float] = []
    for size in sizes:
        async with opened(address) as app:
            await fill_ended(app, size - size // 10)
            for first in range(0, size // 10, FILL_AT_ONCE):
                await fill(app, min(FILL_AT_ONCE, size // 10 - first), first=first)
            await settle_down(app)
            costs.append(await claims(app, rounds=40 if quick else 200))
        report.add(f"{name}_claim_ms_{size // 1000}k", costs[-1] * 1000, "ms", f", {size:,} rows")
    ratio = costs[-1] / costs[0]
    report.add(
        "claim_cost_ratio" if name == "sqlite" else f"{name}_claim_cost_ratio",
        ratio,
        f"{sizes[-1]:,} rows / {sizes[0]:,}",
    )


async def claims(app: App, *, rounds: int) -> float:
    """Seconds for one claim of ten, the middle one of many; what was claimed is put back."""
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        claimed = await app._store.claim(
            Lane.HOT, worker="bench", limit=10, lease=timedelta(minutes=1)
        )
        times.append(time.perf_counter() - began)
        held = {job.id for job in claimed.jobs}
        await app._database.write(lambda tx, held=held: _put_back(tx, held))  # type: ignore[misc]
    return percentile(times, 0.5)


def _put_back(tx: Connection, held: set[str]) -> None:
    tx.execute(
        update(jobs)
        .where(jobs.c.id.in_(held))
        .values(state="pending", turn=0, lease_until=None, worker=None)
    )


def idle(report: Report, address: str, *, quick: bool) -> None:
    """What an idle worker sends to Postgres, transaction brackets included, in fast time."""
    console.print("[bold]postgres[/]: an idle worker")
    speed, minutes = 120.0, 20 if quick else 60
    sent = run_fast(_idle(address, FastClock(speed), minutes), speed)
    report.add(
        "idle_statements_per_min", sent / minutes, "statements/min", ", BEGIN and COMMIT too"
    )


async def _idle(address: str, clock: FastClock, minutes: float) -> int:
    database = PostgresDatabase(address, clock, server_time=False)
    async with opened(address):
        pass
    app = App(database, syncs=[Sync(name="work", source=Nothing())], clock=clock)
    counted: Counter[str] = Counter()
    async with app:
        supervisor = app.supervisor()
        await supervisor.start()
        await clock.sleep(60)
        count_all(database, counted)
        await clock.sleep(60 * minutes)
        total = counted.total()
        await supervisor.stop()
    return total


def count_all(database: PostgresDatabase, counted: Counter[str]) -> None:
    """Count every statement, BEGIN, COMMIT and ROLLBACK that is sent."""
    engine = database.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *rest: counted.update(["statement"]))
    for name in ("begin", "commit", "rollback"):
        event.listen(engine, name, lambda *rest, name=name: counted.update([name]))


if __name__ == "__main__":
    main()
