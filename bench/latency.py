"""Latency: from a submit in one process until the job begins in another, idle and under load."""

from bench.measures import COLD, pickup_ms
from bench.pairs import POSTGRES, SQLITE, Setup
from bench.peer_scripts.protocol import SHIPPED
from bench.report import percentile


def pickup(setup: Setup) -> None:
    """An idle worker, with nothing set; the bare one listens, or looks every 5 ms on SQLite."""
    count = 200 if setup.quick else 600
    for database, prefix in ((POSTGRES, "pickup"), (SQLITE, "pickup_sqlite")):
        pair = setup.pairs[database]
        with pair.ours.client() as client, pair.bare.client() as bare_client:
            ours = pickup_ms(pair.ours, client, count, SHIPPED)
            bare = pickup_ms(pair.bare, bare_client, count, SHIPPED)
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            ours_ms, bare_ms = percentile(ours, share), percentile(bare, share)
            setup.report.add(f"{prefix}_{name}_ms", ours_ms, "ms", f", of {len(ours)}")
            setup.report.add(f"bare_{prefix}_{name}_ms", bare_ms, "ms", ", bare")
            setup.report.add(f"{prefix}_{name}_ratio", ours_ms / bare_ms, "of bare")


def hot(setup: Setup) -> None:
    """A hot job beside 5,000 cold ones, and the same while nothing else happens."""
    count = 100 if setup.quick else 300
    ours = setup.pairs[POSTGRES].ours
    with ours.client() as client:
        idle = pickup_ms(ours, client, count, SHIPPED)
        loaded = pickup_ms(ours, client, count, SHIPPED, cold=COLD)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        idle_ms, loaded_ms = percentile(idle, share), percentile(loaded, share)
        setup.report.add(f"hot_{name}_idle_ms", idle_ms, "ms", ", submit to begun")
        setup.report.add(f"hot_{name}_loaded_ms", loaded_ms, "ms", f", beside {COLD:,} cold jobs")
        setup.report.add(f"hot_{name}_ratio", loaded_ms / idle_ms, "loaded / idle")
