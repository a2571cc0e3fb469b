"""Headgate and the bare drivers side by side: on the same databases, in turns, in one run."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.queue_program import ClientProcess, QueueProgram, python_program
from bench.report import Report
from tests.servers import PostgresServer, postgres

POSTGRES, SQLITE = "postgres", "sqlite"
#: A slow moment of the machine falls into one round, and the middle one counts.
ROUNDS = 3

#: What is measured of one of the two: a figure where more is better.
Measure = Callable[[QueueProgram, ClientProcess], float]


class Pair(NamedTuple):
    """Headgate and the bare driver on one database."""

    #: The database: `postgres` or `sqlite`.
    name: str
    ours: QueueProgram
    bare: QueueProgram

    @property
    def prefix(self) -> str:
        """In front of a figure's name: those of Postgres have none."""
        return "" if self.name == POSTGRES else f"{self.name}_"


class Rates(NamedTuple):
    """The middle of some rounds; the ratio is the middle of the rounds' own ratios."""

    ours: float
    bare: float
    ratio: float


class Setup(NamedTuple):
    """What a part of the benchmark works with."""

    report: Report
    pairs: dict[str, Pair]
    server: PostgresServer
    quick: bool


@contextmanager
def setup(report: Report, *, quick: bool) -> Iterator[Setup]:
    """A SQLite file and a real Postgres, both with fsync on, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        folder = Path(name)
        with postgres(fsync=True) as server:
            urls = {POSTGRES: server.url, SQLITE: f"sqlite:///{folder}/bench.db"}
            pairs = {
                database: Pair(
                    database,
                    python_program("headgate", "headgate_peer", url, folder),
                    python_program("bare", "bare_peer", url, folder),
                )
                for database, url in urls.items()
            }
            yield Setup(report, pairs, server, quick)


def beside_bare(pair: Pair, measure: Measure, bare_measure: Measure | None = None) -> Rates:
    """Measure both, in turns."""
    rounds: list[tuple[float, float]] = []
    with ExitStack() as stack:
        client = stack.enter_context(pair.ours.client())
        bare_client = stack.enter_context(pair.bare.client())
        for _ in range(ROUNDS):
            ours = measure(pair.ours, client)
            bare = (bare_measure or measure)(pair.bare, bare_client)
            rounds.append((ours, bare))
    return Rates(
        median(ours for ours, _ in rounds),
        median(bare for _, bare in rounds),
        median(ours / bare for ours, bare in rounds),
    )
