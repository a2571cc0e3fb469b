"""`python -m headgate.simulation`: many seeds with a progress bar, or one seed again.

A seed that fails is told with how to replay it, what went wrong, and the last events.
"""

import argparse
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pkgutil import resolve_name

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headgate.simulation.scenario import Verdict, play

console = Console(stderr=True, highlight=False)


def main() -> int:
    """Run the seeds; 1 if any of them found a violation."""
    parser = argparse.ArgumentParser(prog="python -m headgate.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one seed, and tell its story")
    parser.add_argument(
        "--workload",
        type=resolve_name,
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="a workload of your own that every seed plays too",
    )
    asked = parser.parse_args()
    play_with = partial(play, workloads=tuple(asked.workload))
    if asked.seed is not None:
        verdict = play_with(asked.seed)
        console.print(verdict.report, markup=False)
        return _tell([verdict])
    return _tell(_run_all(play_with, range(asked.first, asked.first + asked.seeds)))


def _run_all(play: Callable[[int], Verdict], seeds: range) -> list[Verdict]:
    verdicts: list[Verdict] = []
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("seeds"), TimeRemainingColumn())
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as bar,
        # Every run collects its garbage: what was there before it need not be looked at again.
        ProcessPoolExecutor(os.cpu_count(), initializer=gc.freeze) as pool,
    ):
        task = bar.add_task("seeds", total=len(seeds))
        for verdict in pool.map(play, seeds):
            verdicts.append(verdict)
            bar.advance(task)
            if verdict.violations:
                bar.console.print(_story(verdict), markup=False)
    return verdicts


def _tell(verdicts: Iterable[Verdict]) -> int:
    told = list(verdicts)
    failed = [verdict for verdict in told if verdict.violations]
    hours = sum(verdict.virtual_s for verdict in told) / 3600
    counts = sum((Counter(verdict.counts) for verdict in told), Counter())
    work = "".join(f", {count:,} {name}" for name, count in counts.items())
    console.print(
        f"{len(told)} seeds{work}, {sum(verdict.crashes for verdict in told):,} crashes, "
        f"{hours:,.0f} virtual hours: {len(failed)} with violations"
    )
    for verdict in failed:
        console.print(_story(verdict), markup=False)
    return 1 if failed else 0


def _story(verdict: Verdict) -> str:
    return "\n".join(
        [
            f"seed {verdict.seed} failed (trace {verdict.trace_hash})",
            *(f"  {violation}" for violation in verdict.violations),
            verdict.report,
            f"replay: python -m headgate.simulation --seed {verdict.seed}",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
