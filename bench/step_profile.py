"""Where the time of a step goes: the worker's CPU time for one chunk, and the share of each layer.

It is measured twice, in one process with a real Postgres: without a profiler for the time, and with
one for the shares, because a profiler makes everything slower.
"""

import cProfile
import pstats
import time
from collections import defaultdict
from collections.abc import Mapping
from operator import itemgetter
from pathlib import PurePath

from bench.peer_scripts.headgate_app import SYNC, make_app
from bench.peer_scripts.protocol import CHUNKS, STEPS, Jobs
from bench.report import Report, is_quick
from bench.workload import empty
from headgate import App, JobRequest, Lane
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock
from tests.servers import postgres

#: Jobs at first, which compile the statements.
WARM_UP = 20
#: Layers with less are not shown.
SHARE_MIN = 0.002

#: A function of the profile: its file, line and name.
_Function = tuple[str, int, str]


def main() -> None:
    """Measure, and print it."""
    jobs = 100 if is_quick(__doc__ or "") else 500
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("step_profile")
    with postgres(fsync=True) as server:
        event_loop.run(_measure(make_app(server.url, Jobs(), tuned=True), jobs, report))
    report.print()


async def _measure(app: App, jobs: int, report: Report) -> None:
    await app.migrate()
    async with app:
        await _work(app, WARM_UP)
        cpu_s = await _work(app, jobs)
        report.add("step_cpu_us", cpu_s / jobs / CHUNKS * 1e6, "us of CPU", ", a step")
        # By CPU time: by the time of day, to wait for an answer would count too.
        profiler = cProfile.Profile(time.process_time)
        await _work(app, jobs, profiler)
    spent_s = own_times(pstats.Stats(profiler))
    for layer, share in layer_shares(spent_s).items():
        if share >= SHARE_MIN:
            report.add(f"share_{layer}", share, "of the CPU time")
    largest = max(spent_s.values()) / sum(spent_s.values())
    report.add("largest_function_share", largest, "of the CPU time")


async def _work(app: App, jobs: int, profiler: cProfile.Profile | None = None) -> float:
    """Work on so many jobs; returns the CPU time of this process."""
    await empty(app)
    await app.jobs.submit_many(
        [
            JobRequest(sync=SYNC, user_id=f"{STEPS}-{number}", lane=Lane.HOT)
            for number in range(jobs)
        ]
    )
    supervisor = app.supervisor()
    supervisor.stop_when_idle()
    began_s = time.process_time()
    if profiler is not None:
        profiler.enable()
    await supervisor.run_until_stopped()
    if profiler is not None:
        profiler.disable()
    return time.process_time() - began_s


def own_times(stats: pstats.Stats) -> dict[_Function, float]:
    """The seconds that each function spends itself, with the built-ins that it calls."""
    found: dict[_Function, tuple[int, int, float, float, dict[_Function, tuple[float, ...]]]]
    found = stats.stats  # type: ignore[attr-defined]
    spent_s: defaultdict[_Function, float] = defaultdict(float)
    for function, (_, _, own_s, _, callers) in found.items():
        if function[0] != "~":
            spent_s[function] += own_s
            continue
        for caller, (_, _, of_caller_s, _) in callers.items():
            spent_s[caller] += of_caller_s
    return dict(spent_s)


def layer_shares(spent_s: Mapping[_Function, float]) -> dict[str, float]:
    """The share of each layer, the largest first."""
    by_layer: defaultdict[str, float] = defaultdict(float)
    for (file, _, _), own_s in spent_s.items():
        by_layer[layer_of(file)] += own_s
    total_s = sum(by_layer.values())
    ordered = sorted(by_layer.items(), key=itemgetter(1), reverse=True)
    return {layer: each_s / total_s for layer, each_s in ordered}


def layer_of(file: str) -> str:
    """A layer of Headgate, a library, or what else the interpreter does."""
    parts = PurePath(file).parts
    for name in ("site-packages", "src"):
        if name in parts:
            inside = parts[parts.index(name) + 1 :]
            return inside[1] if inside[0] == "headgate" else inside[0]
    return "benchmark" if "bench" in parts else "python"


if __name__ == "__main__":
    main()
