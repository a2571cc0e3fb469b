"""Scale-out: one, two and four worker processes on one Postgres, and that none claims twice."""

import asyncio
from statistics import median

import asyncpg

from bench.measures import JobsRate, jobs_rate
from bench.pairs import POSTGRES, ROUNDS, Setup
from bench.peer_scripts.protocol import TUNED

WORKERS = (1, 2, 4)


def scale_out(setup: Setup) -> None:
    """Jobs a second of all workers together, and how long a claim takes each."""
    count = 10_000 if setup.quick else 40_000
    ours = setup.pairs[POSTGRES].ours
    rounds: dict[int, list[JobsRate]] = {workers: [] for workers in WORKERS}
    with ours.client() as client:
        for _ in range(2 if setup.quick else ROUNDS):
            for workers in WORKERS:
                rate = jobs_rate(ours, client, count, TUNED, workers=workers)
                asyncio.run(check_claimed_once(ours.url, rate, count))
                rounds[workers].append(rate)
    alone = median(each.per_s for each in rounds[1])
    for workers, rates in rounds.items():
        rate_per_s = median(each.per_s for each in rates)
        claim_ms = median(each.claim_p50_ms for each in rates)
        setup.report.add(f"jobs_per_s_{workers}", rate_per_s, "jobs/s", f", {workers} processes")
        setup.report.add(f"claim_p50_ms_{workers}", claim_ms, "ms", ", a claim")
        if workers > 1:
            setup.report.add(f"scale_out_{workers}", rate_per_s / alone, "of one process")


async def check_claimed_once(url: str, rate: JobsRate, count: int) -> None:
    """Every job ran once, in one of the workers, and was claimed once."""
    connection = await asyncpg.connect(url)
    twice = await connection.fetchval("SELECT count(*) FROM headgate_jobs WHERE token <> 1")
    await connection.close()
    assert sum(rate.ran) == count, f"{rate.ran} add up to {sum(rate.ran)}, not to {count}"
    assert twice == 0, f"{twice} jobs were claimed more than once"
