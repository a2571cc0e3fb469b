"""Headgate beside its peers: the same measures of all of them, in turns, in one run on one machine.

Python peers run in a virtual environment of their own, and Graphile Worker under Node; `make peers`
installs them. One that is missing is left out. All use the same Postgres, with fsync on.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import asyncpg

from bench.measures import (
    COLD,
    KILLED,
    cpu_s,
    jobs_rate,
    pickup_ms,
    recovery_s,
    submit_many_rate,
    submit_rate,
)
from bench.pairs import POSTGRES, SQLITE
from bench.peer_scripts.protocol import SHIPPED, TUNED, TWENTY
from bench.peer_table import Cell, Row, Table, write_block
from bench.queue_program import ROOT, ClientProcess, ProgramFailed, QueueProgram, python_program
from bench.report import console, percentile
from tests.servers import postgres

VENV = ROOT / ".venv-peers" / "bin"
NODE_FOLDER = ROOT / ".cache" / "peers"
README = ROOT / "README.md"
#: A program that has not recovered by then does not by itself.
RECOVERY_S_MAX, QUICK_RECOVERY_S_MAX = 60.0, 20.0


class Peer(NamedTuple):
    """A program that takes part, and how many jobs it does in a few seconds."""

    title: str
    command: Sequence[str]
    databases: Sequence[str]
    jobs: int
    #: The command that prints its version; empty: there is none.
    version: Sequence[str]

    def on(self, url: str, folder: Path) -> QueueProgram:
        """The program on a database."""
        return QueueProgram(self.title.split()[0].lower(), self.command, url, folder)


def find_peers() -> Iterator[Peer]:
    """Headgate, the peers that are installed, and the bare drivers."""
    both = (POSTGRES, SQLITE)
    ours = python_program("headgate", "headgate_peer", "", ROOT).command
    yield Peer(
        "Headgate", ours, both, 20_000, [str(Path(ours[0]).parent / "headgate"), "--version"]
    )
    for title, databases, jobs, version in (
        ("Procrastinate", (POSTGRES,), 2_000, ["procrastinate", "--version"]),
        ("DBOS", (POSTGRES,), 1_500, ["dbos", "version"]),
        ("Huey", both, 4_000, []),
    ):
        module = title.lower()
        if not any((VENV.parent / "lib").glob(f"python*/site-packages/{module}")):
            console.print(f"{title} is not installed: make peers", style="yellow")
            continue
        script = python_program(module, f"{module}_peer", "", ROOT, str(VENV / "python")).command
        prints = [str(VENV / version[0]), *version[1:]] if version else []
        yield Peer(title, script, databases, jobs, prints)
    node, package = shutil.which("node"), NODE_FOLDER / "node_modules" / "graphile-worker"
    if node is None or not package.exists():
        console.print("Graphile Worker is not installed: make peers, with Node", style="yellow")
    else:
        script = [node, str(ROOT / "bench" / "peer_scripts" / "graphile_peer.js")]
        prints = [node, str(package / "dist" / "cli.js"), "--version"]
        yield Peer("Graphile Worker", script, (POSTGRES,), 20_000, prints)
    bare = python_program("bare", "bare_peer", "", ROOT).command
    yield Peer("bare driver", bare, both, 20_000, [ours[0], "-c", ""])


class Measured(NamedTuple):
    """A program that is being measured, with its client."""

    peer: Peer
    database: str
    program: QueueProgram
    client: ClientProcess
    #: What the counts are divided by.
    fewer: int

    @property
    def jobs(self) -> int:
        """Jobs for a measure of its rate."""
        return self.peer.jobs // self.fewer


def submits(at: Measured) -> Cell:
    """Submits a second."""
    return [submit_rate(at.client, 1_000 // at.fewer)]


def bulk_submits(at: Measured) -> Cell:
    """Submits a second by the bulk call."""
    return [submit_many_rate(at.client, at.jobs)]


def whole_jobs(at: Measured) -> Cell:
    """Jobs a second, tuned and as shipped; there is only one bare driver."""
    settings = (TUNED,) if at.peer.title == "bare driver" else (TUNED, SHIPPED)
    return [jobs_rate(at.program, at.client, at.jobs, each).per_s for each in settings]


def pickup(at: Measured) -> Cell:
    """Milliseconds from submit to begun in another process."""
    waits = pickup_ms(at.program, at.client, 300 // at.fewer, SHIPPED)
    return [percentile(waits, 0.5), percentile(waits, 0.99)]


def hot(at: Measured) -> Cell:
    """The same beside cold jobs; a worker with one slot for all would measure these instead."""
    if at.peer.title == "bare driver":
        return []
    waits = pickup_ms(at.program, at.client, 150 // at.fewer, TWENTY, cold=COLD)
    return [percentile(waits, 0.5), percentile(waits, 0.99)]


def recovery(at: Measured) -> Cell:
    """Seconds from `kill -9` until all jobs are done."""
    if at.peer.title == "bare driver":
        return []
    limit_s = RECOVERY_S_MAX if at.fewer == 1 else QUICK_RECOVERY_S_MAX
    took_s = recovery_s(at.program, at.client, limit_s)
    return f"not within {limit_s:.0f}" if took_s is None else [took_s]


#: What is measured: the row's title, the database, how, and how often.
MEASURES: dict[str, tuple[str, str, Callable[[Measured], Cell], int]] = {
    "submit": ("submit one after another, Postgres, per s", POSTGRES, submits, 3),
    "submit_many": ("submit many, Postgres, per s", POSTGRES, bulk_submits, 3),
    "jobs": ("whole no-op jobs, Postgres, per s: tuned / as shipped", POSTGRES, whole_jobs, 3),
    "jobs_sqlite": ("whole no-op jobs, SQLite, per s: tuned / as shipped", SQLITE, whole_jobs, 3),
    "pickup": ("pick-up in another process, Postgres, p50 / p99 ms", POSTGRES, pickup, 1),
    "pickup_sqlite": ("pick-up in another process, SQLite, p50 / p99 ms", SQLITE, pickup, 1),
    "hot": (f"hot job beside {COLD:,} cold, Postgres, p50 / p99 ms", POSTGRES, hot, 1),
    "recovery": (f"`kill -9` to all {KILLED} jobs done, Postgres, s", POSTGRES, recovery, 1),
    "recovery_sqlite": (f"`kill -9` to all {KILLED} jobs done, SQLite, s", SQLITE, recovery, 1),
}
VERSION = "version"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds")
    parser.add_argument("--only", choices=[*MEASURES, VERSION], action="append", help="one row")
    parser.add_argument("--markdown", action="store_true", help="print the table for the README")
    parser.add_argument("--write", action="store_true", help="put it into the README")
    asked = parser.parse_args()
    chosen = asked.only or [*MEASURES, VERSION]
    with tempfile.TemporaryDirectory(prefix="headgate-peers-") as folder:
        table = measure(chosen, Path(folder), quick=asked.quick)
    if asked.markdown:
        print(table.markdown())
    else:
        console.print(table.markdown(), soft_wrap=True, markup=False, highlight=False)
        print(json.dumps({"bench": "peers", "figures": table.figures()}), flush=True)
    if asked.write:
        write_block(README, table.markdown())


def measure(chosen: Sequence[str], folder: Path, *, quick: bool) -> Table:
    """Measure the chosen rows of all that are here."""
    peers = list(find_peers())
    table = Table([peer.title for peer in peers])
    if any(name in MEASURES for name in chosen):
        with started(peers, folder, fewer=4 if quick else 1) as running:
            for name, (title, database, how, rounds) in MEASURES.items():
                if name in chosen:
                    console.print(f"[bold]{title}[/]")
                    here = [at for at in running if at.database == database]
                    table.add(Row(name, title, one_row(here, how, 1 if quick else rounds)))
    if VERSION in chosen:
        cells: dict[str, Cell] = {
            peer.title: [cpu_s(peer.version, folder)] for peer in peers if peer.version
        }
        table.add(Row(VERSION, "`--version`, CPU s", cells))
    return table


def one_row(
    running: Sequence[Measured], how: Callable[[Measured], Cell], rounds: int
) -> dict[str, Cell]:
    """The middle of some rounds for each; in a round all are measured, one after another."""
    found: dict[str, list[Cell]] = {at.peer.title: [] for at in running}
    for _ in range(rounds):
        for at in running:
            try:
                cell = how(at)
            except (ProgramFailed, TimeoutError) as error:
                cell = "failed"
                console.print(f"{at.peer.title}: {error}", style="red", markup=False)
            found[at.peer.title].append(cell)
            console.print(f"  {at.peer.title} {cell}", style="dim", markup=False)
    return {title: middle(cells) for title, cells in found.items()}


def middle(cells: Sequence[Cell]) -> Cell:
    """The middle of each figure; what is no figure stays as it is."""
    figures = [cell for cell in cells if not isinstance(cell, str)]
    if len(figures) < len(cells):
        return next(cell for cell in cells if isinstance(cell, str))
    return [median(values) for values in zip(*figures, strict=True)]


@contextmanager
def started(peers: Sequence[Peer], folder: Path, *, fewer: int) -> Iterator[list[Measured]]:
    """Each peer with a database of its own, on one server, and with a client."""
    with postgres(fsync=True) as server, ExitStack() as stack:
        running: list[Measured] = []
        for number, peer in enumerate(peers):
            for database in peer.databases:
                url = f"sqlite:///{folder}/{number}.db"
                if database == POSTGRES:
                    asyncio.run(_create_database(server.url, f"peer_{number}"))
                    url = server.url.removesuffix("/postgres") + f"/peer_{number}"
                program = peer.on(url, folder)
                client = stack.enter_context(program.client())
                running.append(Measured(peer, database, program, client, fewer))
        yield running


async def _create_database(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()


if __name__ == "__main__":
    main()
