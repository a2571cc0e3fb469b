"""The engine: rates, latencies, recovery and costs, each beside the bare driver in the same run.

Figures of Postgres have no prefix, those of SQLite begin with `sqlite_`. A ratio compares two rates
of one run, measured in turns; the middle of a few rounds counts.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import (
    idle_worker,
    latency,
    recovery,
    scale_out,
    startup,
    submits,
    table_size,
    throughput,
)
from bench.pairs import Setup, setup
from bench.report import Report, console
from headgate.base import log
from headgate.base.clock import SystemClock

VERSION = "version"
#: The parts, in the order in which they run, by the names for `--only`.
PARTS: Mapping[str, Callable[[Setup], None]] = {
    "submit": submits.one_by_one,
    "submit_many": submits.many,
    "jobs": throughput.jobs,
    "steps": throughput.steps,
    "shipped": throughput.shipped,
    "dead_tuples": throughput.dead_tuples,
    "pickup": latency.pickup,
    "hot": latency.hot,
    "recovery": recovery.recovery,
    "scale_out": scale_out.scale_out,
    "table_size": table_size.table_size,
    "idle": idle_worker.idle,
}


def main() -> None:
    """Run everything, or one part, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer jobs: about three minutes")
    parser.add_argument("--only", choices=[VERSION, *PARTS], action="append", help="one part")
    asked = parser.parse_args()
    chosen = asked.only or [VERSION, *PARTS]
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("engine")
    if VERSION in chosen:
        console.print(f"[bold]{VERSION}[/]")
        with tempfile.TemporaryDirectory() as folder:
            startup.version(report, Path(folder))
    parts = [name for name in PARTS if name in chosen]
    if parts:
        with setup(report, quick=asked.quick) as prepared:
            for name in parts:
                console.print(f"[bold]{name}[/]")
                PARTS[name](prepared)
    report.print()


if __name__ == "__main__":
    main()
