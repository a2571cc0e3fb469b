"""`python -m tests.simulation`: runs many seeds with a progress bar, or one seed again.

For a seed that fails it prints what went wrong, the last events, and the command to replay it.
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

from tests.simulation.scenario import Verdict, play

console = Console(stderr=True, highlight=False)


def main() -> int:
    """Run the seeds, and return 1 if any found a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one seed, and print its events")
    parser.add_argument(
        "--workload",
        type=resolve_name,
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="a workload of your own that every seed runs too",
    )
    options = parser.parse_args()
    play_with = partial(play, workloads=tuple(options.workload))
    if options.seed is not None:
        verdict = play_with(options.seed)
        console.print(verdict.report, markup=False)
        return _print_summary([verdict])
    return _print_summary(_run_all(play_with, range(options.first, options.first + options.seeds)))


def _run_all(play: Callable[[int], Verdict], seeds: range) -> list[Verdict]:
    verdicts: list[Verdict] = []
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("seeds"), TimeRemainingColumn())
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as bar,
        # Every run collects garbage; freezing spares it what existed before.
        ProcessPoolExecutor(os.cpu_count(), initializer=gc.freeze) as pool,
    ):
        task = bar.add_task("seeds", total=len(seeds))
        for verdict in pool.map(play, seeds):
            verdicts.append(verdict)
            bar.advance(task)
            if verdict.violations:
                bar.console.print(_report_text(verdict), markup=False)
    return verdicts


def _print_summary(verdicts: Iterable[Verdict]) -> int:
    runs = list(verdicts)
    failed = [verdict for verdict in runs if verdict.violations]
    hours = sum(verdict.virtual_s for verdict in runs) / 3600
    counts = sum((Counter(verdict.counts) for verdict in runs), Counter())
    work = "".join(f", {count:,} {name}" for name, count in counts.items())
    console.print(
        f"{len(runs)} seeds{work}, {sum(verdict.crashes for verdict in runs):,} crashes, "
        f"{hours:,.0f} virtual hours: {len(failed)} with violations"
    )
    for verdict in failed:
        console.print(_report_text(verdict), markup=False)
    return 1 if failed else 0


def _report_text(verdict: Verdict) -> str:
    return "\n".join(
        [
            f"seed {verdict.seed} failed (trace {verdict.trace_hash})",
            *(f"  {violation}" for violation in verdict.violations),
            verdict.report,
            f"replay: python -m tests.simulation --seed {verdict.seed}",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
