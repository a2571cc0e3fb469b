"""What can be measured of any program with a queue: rates, latencies, and how it gets over a crash.

Each measure does the same with every program, by the protocol of `bench.peer_scripts`.
"""

import os
import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.peer_scripts.protocol import HELD, NOTHING, PROBE, SLOW, TWENTY, WARM
from bench.queue_program import LOOK_S, ClientProcess, Process, QueueProgram, seconds

#: Jobs that a worker has done before it is measured: what it compiles at first is not its rate.
WARM_UP = 300
#: The first probes find a worker that has just started.
PROBES_WARM = 5
#: The longest rest between two probes. Rests are random, and longer where probes take long, so that
#: they meet every phase of a worker that polls.
PAUSE_S = 0.03
#: Where a job takes seconds to be picked up, fewer will do.
PROBING_S_MAX = 20.0
#: Jobs that run when their worker is killed, and cold ones beside which a hot one is submitted.
KILLED, COLD = 20, 5_000
CPU_ROUNDS = 5
#: How often one looks whether all jobs have ended when the last one has begun.
SHORT_LOOK_S = 0.002
#: As long as one waits for jobs to begin at all.
BEGIN_S_MAX = 60.0


class JobsRate(NamedTuple):
    """What one or several workers did together."""

    per_s: float
    #: Jobs that ran, in each of the workers that told.
    ran: Sequence[int]
    #: The time of a claim: the middle of each worker's middle.
    claim_p50_ms: float


def submit_rate(client: ClientProcess, count: int) -> float:
    """Submits a second, one after another."""
    client.setup()
    client.submit(WARM, count // 10)
    return count / seconds(client.submit(NOTHING, count))


def submit_many_rate(client: ClientProcess, count: int) -> float:
    """Submits a second by the bulk call."""
    client.setup()
    client.submit_many(WARM, count // 10)
    return count / seconds(client.submit_many(NOTHING, count))


def jobs_rate(
    program: QueueProgram,
    client: ClientProcess,
    count: int,
    settings: str,
    *,
    kind: str = NOTHING,
    workers: int = 1,
) -> JobsRate:
    """Whole jobs a second: all submitted before, then claimed, run and ended."""
    client.setup()
    with ExitStack() as stack:
        # One after another, because each has to have worked and to stand still until all begin.
        running = [
            stack.enter_context(_warm_worker(program, client, settings, expect=count))
            for _ in range(workers)
        ]
        client.submit_many(kind, count)
        program.settle_down()
        began = time.monotonic_ns()
        for worker in running:
            worker.thaw()
        heard = kind == NOTHING and workers == 1
        if heard:
            # A program that polls has not begun at once; that is latency, and measured as such.
            began = int(running[0].hear("first")["first"])
            running[0].hear("last")
        ended = client.wait_until_empty(running, look_s=SHORT_LOOK_S if heard else LOOK_S)
        for worker in running:
            worker.stop()
        told = [said for worker in running if (said := worker.last_words("ran")) is not None]
    return JobsRate(
        per_s=count / (ended - began) * 1e9,
        ran=[int(each["ran"]) for each in told],
        claim_p50_ms=median(float(each["claim_p50_ms"]) for each in told) if told else 0.0,
    )


@contextmanager
def _warm_worker(
    program: QueueProgram, client: ClientProcess, settings: str, *, expect: int
) -> Iterator[Process]:
    """A worker that has done some jobs, and stands still."""
    with program.worker(settings, expect=expect) as worker:
        client.submit_many(WARM, WARM_UP)
        client.wait_until_empty([worker])
        program.freeze(worker)
        try:
            yield worker
        finally:
            worker.thaw()


def pickup_ms(
    program: QueueProgram, client: ClientProcess, count: int, settings: str, *, cold: int = 0
) -> list[float]:
    """Milliseconds from a submit in one process until the job begins in another, sorted.

    With `cold`, so many slow jobs of low priority wait and run beside.
    """
    client.setup()
    rng = random.Random(0)
    waits: list[float] = []
    with program.worker(settings) as worker:
        for _ in range(PROBES_WARM):
            _probe(client, worker)
        if cold:
            client.submit_many(SLOW, cold)
            program.settle_down()
        ends = time.monotonic() + PROBING_S_MAX
        while len(waits) < count and time.monotonic() < ends:
            waits.append(_probe(client, worker))
            time.sleep(rng.uniform(0, max(PAUSE_S, 2 * median(waits) / 1000)))
    return sorted(waits)


def _probe(client: ClientProcess, worker: Process) -> float:
    submitted = client.submit(PROBE)
    begun = worker.hear("begun", BEGIN_S_MAX)
    assert begun["begun"] == submitted["first"], (submitted, begun)
    return float(begun["at"] - submitted["began"]) / 1e6


def recovery_s(program: QueueProgram, client: ClientProcess, limit_s: float) -> float | None:
    """Seconds from `kill -9` of a worker with 20 jobs until a new worker has ended them all.

    The jobs go on until the worker is killed, and end at once when they run again. The new worker
    is started at once, as a service manager does. None: not within `limit_s`.
    """
    client.setup()
    hold = program.folder / f"{program.name}.hold"
    hold.touch()
    client.submit(HELD, KILLED)
    with program.worker(TWENTY, hold=hold) as worker:
        begun = {int(worker.hear("begun", BEGIN_S_MAX)["begun"]) for _ in range(KILLED)}
        assert len(begun) == KILLED, begun
        worker.kill()
    killed = time.monotonic_ns()
    hold.unlink()
    with program.worker(TWENTY, hold=hold) as worker:
        try:
            again = {int(worker.hear("begun", limit_s)["begun"]) for _ in range(KILLED)}
            ended = client.wait_until_empty([worker], timeout_s=limit_s)
        except TimeoutError:
            return None
    return (ended - killed) / 1e9 if again == begun else None


def cpu_s(command: Sequence[str], folder: Path) -> float:
    """Seconds of CPU that a command takes, the middle of a few runs."""
    times: list[float] = []
    for _ in range(CPU_ROUNDS):
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{command} returned {process.returncode}")
        times.append(used.ru_utime + used.ru_stime)
    return sorted(times)[len(times) // 2]
