"""The size of the table: what a claim and a list cost with a thousand jobs and with a million."""

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from sqlalchemy import Connection, update

from bench.pairs import Pair, Setup
from bench.report import percentile
from bench.workload import FILL_AT_ONCE, fill, fill_ended, opened, settle_down
from headgate import App, Lane
from headgate.base import event_loop
from headgate.model.states import JobState
from headgate.store.sql.tables import jobs

SMALL, QUICK_LARGE, LARGE = 1_000, 100_000, 1_000_000
CLAIMED = 10
#: Claims that are not measured: the first ones compile the statement and fill the caches.
WARM_UP = 10


def table_size(setup: Setup) -> None:
    """Both databases."""
    for pair in setup.pairs.values():
        event_loop.run(_measure(setup, pair))


async def _measure(setup: Setup, pair: Pair) -> None:
    """Claims in a small and a large table, and lists in the large one."""
    large = QUICK_LARGE if setup.quick else LARGE
    rounds = 40 if setup.quick else 200
    costs: list[float] = []
    for size in (SMALL, large):
        async with opened(pair.ours.url) as app:
            await fill_table(app, size)
            costs.append(await claim_ms(app, rounds))
            name = f"{pair.prefix}claim_ms_{size // 1000}k"
            setup.report.add(name, costs[-1], "ms", f", {CLAIMED} of {size:,} jobs")
            if size == large:
                await lists(setup, pair, app, f", {size:,} jobs, none failed")
    ratio = costs[-1] / costs[0]
    setup.report.add(f"{pair.prefix}claim_cost_ratio", ratio, f"{large:,} jobs / {SMALL:,}")


async def fill_table(app: App, size: int) -> None:
    """So many jobs, of which a tenth waits."""
    await fill_ended(app, size - size // 10)
    for first in range(0, size // 10, FILL_AT_ONCE):
        await fill(app, min(FILL_AT_ONCE, size // 10 - first), first=first)
    await settle_down(app)


async def lists(setup: Setup, pair: Pair, app: App, note: str) -> None:
    """The newest failed jobs, of which there are none, and the newest of all."""

    async def failed() -> None:
        assert not await app.jobs.list(states=[JobState.FAILED])

    async def newest() -> None:
        assert len(await app.jobs.list()) > CLAIMED

    setup.report.add(f"{pair.prefix}list_failed_ms", await middle_ms(failed, 20), "ms", note)
    setup.report.add(f"{pair.prefix}list_newest_ms", await middle_ms(newest, 20), "ms")


async def middle_ms(one: Callable[[], Awaitable[None]], rounds: int) -> float:
    """Milliseconds, the middle of some rounds."""
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        await one()
        times.append(time.perf_counter() - began)
    return percentile(times, 0.5) * 1000


async def claim_ms(app: App, rounds: int) -> float:
    """Milliseconds for a claim, the middle of some rounds; what was claimed is put back."""
    times: list[float] = []
    for _ in range(WARM_UP + rounds):
        began = time.perf_counter()
        claimed = await app._runtime.jobs.claim(
            Lane.HOT, worker="bench", limit=CLAIMED, lease=timedelta(minutes=1)
        )
        times.append(time.perf_counter() - began)
        held = {job.id for job in claimed.jobs}
        assert len(held) == CLAIMED
        await app._database.write(lambda tx, held=held: _put_back(tx, held))  # type: ignore[misc]
    return percentile(times[WARM_UP:], 0.5) * 1000


def _put_back(tx: Connection, held: set[str]) -> None:
    tx.execute(
        update(jobs)
        .where(jobs.c.id.in_(held))
        .values(state="pending", turn=0, lease_until=None, worker=None)
    )
