"""Recovery: a worker with running jobs is killed, and another one ends them. Nothing is set."""

from bench.measures import KILLED, recovery_s
from bench.pairs import Setup

LIMIT_S = 150.0


def recovery(setup: Setup) -> None:
    """Seconds from `kill -9` until all jobs are done, on both databases."""
    for pair in setup.pairs.values():
        with pair.ours.client() as client:
            took_s = recovery_s(pair.ours, client, LIMIT_S)
        assert took_s is not None, f"jobs are not done after {LIMIT_S} s"
        note = f", {KILLED} running jobs, kill -9 to done"
        setup.report.add(f"{pair.prefix}recovery_s", took_s, "s", note)
