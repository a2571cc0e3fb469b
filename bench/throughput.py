"""Throughput: whole jobs and steps a second beside the bare driver, as tuned and as shipped.

A whole job is submitted before, and then claimed, run and ended. A step is one chunk of a job that
has many. The bare driver claims and completes the same rows, or updates them as often.
"""

import asyncio
from statistics import median

import asyncpg

from bench.measures import jobs_rate
from bench.pairs import POSTGRES, ROUNDS, Setup, beside_bare
from bench.peer_scripts.protocol import CHUNKS, SHIPPED, STEPS, TUNED

#: Postgres writes its statistics down after this time at the latest.
STATISTICS_S = 1.5


def jobs(setup: Setup) -> None:
    """Whole no-op jobs."""
    count = 10_000 if setup.quick else 40_000
    for pair in setup.pairs.values():
        rates = beside_bare(
            pair, lambda program, client: jobs_rate(program, client, count, TUNED).per_s
        )
        setup.report.add(f"{pair.prefix}jobs_per_s", rates.ours, "jobs/s", ", whole, tuned")
        setup.report.add(f"{pair.prefix}bare_jobs_per_s", rates.bare, "jobs/s", ", bare")
        setup.report.add(f"{pair.prefix}jobs_ratio", rates.ratio, "of bare")


def steps(setup: Setup) -> None:
    """Chunks of jobs that have many."""
    count = 200 if setup.quick else 600
    for pair in setup.pairs.values():
        rates = beside_bare(
            pair,
            lambda program, client: (
                CHUNKS * jobs_rate(program, client, count, TUNED, kind=STEPS).per_s
            ),
        )
        setup.report.add(f"{pair.prefix}steps_per_s", rates.ours, "steps/s")
        setup.report.add(f"{pair.prefix}bare_steps_per_s", rates.bare, "updates/s", ", bare")
        setup.report.add(f"{pair.prefix}steps_ratio", rates.ratio, "of bare")


def shipped(setup: Setup) -> None:
    """`headgate worker` with nothing set, beside the tuned worker, in jobs a second."""
    count = 10_000 if setup.quick else 40_000
    for pair in setup.pairs.values():
        rounds: list[tuple[float, float]] = []
        with pair.ours.client() as client:
            for _ in range(ROUNDS):
                as_shipped = jobs_rate(pair.ours, client, count, SHIPPED).per_s
                rounds.append((as_shipped, jobs_rate(pair.ours, client, count, TUNED).per_s))
        rate = median(as_shipped for as_shipped, _ in rounds)
        ratio = median(as_shipped / tuned for as_shipped, tuned in rounds)
        setup.report.add(f"{pair.prefix}shipped_jobs_per_s", rate, "jobs/s", ", nothing set")
        setup.report.add(f"{pair.prefix}shipped_ratio", ratio, "of tuned")


def dead_tuples(setup: Setup) -> None:
    """What whole jobs leave behind in the table, right after the last."""
    count = 20_000 if setup.quick else 200_000
    ours = setup.pairs[POSTGRES].ours
    with ours.client() as client:
        jobs_rate(ours, client, count, TUNED)
    dead_share, bytes_per_job = asyncio.run(_dead_share(ours.url, count))
    setup.report.add("dead_tuple_share", dead_share, "of all tuples", f", after {count:,} jobs")
    setup.report.add("table_bytes_per_job", bytes_per_job, "bytes", ", with indexes")


async def _dead_share(url: str, count: int) -> tuple[float, float]:
    connection = await asyncpg.connect(url)
    await asyncio.sleep(STATISTICS_S)
    row = await connection.fetchrow(
        "SELECT n_dead_tup::float / greatest(n_live_tup + n_dead_tup, 1) AS share,"
        " pg_total_relation_size(relid)::float AS bytes"
        " FROM pg_stat_user_tables WHERE relname = 'headgate_jobs'"
    )
    await connection.close()
    assert row is not None
    return float(row["share"]), float(row["bytes"]) / count
