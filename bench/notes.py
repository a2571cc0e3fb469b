"""The notes index: pages a second from a graph to its index, and what that costs beside the work.

The work is to embed the texts and to keep them in the vector index. Everything else is overhead: to
ask Roam and parse what it sends, to make text and pieces of pages, and to commit the run. Roam is
the sandbox, in another process and over loopback, with answers that it knows from an earlier run: a
real one computes them on machines of its own.
"""

import multiprocessing
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch
from urllib.parse import urlsplit

from starlette.types import Message, Receive, Scope, Send

from bench.report import Report, console, is_quick
from headgate import App, JobState, Secret, SystemClock
from headgate.base import event_loop, log
from headgate.connectors.roam.api import NAME as ROAM
from headgate.connectors.vectors import (
    Embedder,
    Vector,
    VectorCollection,
    VectorIndex,
    WordLlamaEmbedder,
)
from headgate.net.addresses import LOOPBACK, AddressRules
from headgate.net.aiohttp_transport import AiohttpTransport
from headgate.systems.notes_index import system
from headgate.systems.notes_index.service import NotesIndex, RunRequest
from headgate.systems.notes_index.settings import NotesIndexSettings
from headgate.systems.notes_index.syncs import indexes_of, notes_index
from headgate_sandbox.roam.sandbox import Roam
from headgate_sandbox.serving import serving
from tests.connecting import vault

PAGES, PAGES_QUICK = 2_000, 300
#: More than any run asks for, of the sandbox and by the budget.
REQUESTS_PER_MIN = 1_000_000
LOOK_S = 0.02
USER = "ann"
#: Each with a database and an index of its own.
RUNS = ("warm-up", "measured")

#: What a run asks of the vector index.
_INDEX = {
    VectorIndex: ("collection",),
    VectorCollection: (
        "delete_documents",
        "document_ids",
        "document_metadata",
        "maintain",
        "upsert",
    ),
}


#: Seconds, by what they were spent on.
Parts: TypeAlias = defaultdict[str, float]


class Graph(NamedTuple):
    """A sandbox: where it is, and the token that it takes."""

    url: str
    token: str


class Took(NamedTuple):
    """How long a run took, and its parts."""

    seconds: float
    parts: Parts

    def share(self, *names: str) -> float:
        """Which share of the time these parts took."""
        return sum(self.parts[name] for name in names) / self.seconds


class TimedEmbedder(WordLlamaEmbedder):
    """The embedder that is shipped, with the time that it takes."""

    def __init__(self, parts: Parts) -> None:
        """Add the time to `parts`."""
        super().__init__()
        self._parts = parts

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text."""
        began = time.perf_counter()
        vectors = await super().embed(texts)
        self._parts["embedding"] += time.perf_counter() - began
        return vectors


def main() -> None:
    """Run everything and print it."""
    pages = PAGES_QUICK if is_quick(__doc__ or "") else PAGES
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("notes")
    with graph_of(pages) as graph, tempfile.TemporaryDirectory(prefix="headgate-bench-") as made:
        folder = Path(made)
        for each in RUNS:
            (folder / each).mkdir()
        event_loop.run(measure(report, graph, folder, pages))
    report.print()


@contextmanager
def graph_of(pages: int) -> Iterator[Graph]:
    """A graph of so many pages, in another process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, pages), daemon=True)
    process.start()
    try:
        yield Graph(*here.recv())
    finally:
        here.send("stop")
        process.join()


class ReadyRoam(Roam):
    """A sandbox that computes every answer once."""

    def __init__(self, clock: SystemClock, **options: Any) -> None:
        """Know no answer yet."""
        super().__init__(clock, **options)
        self._known: dict[tuple[str, bytes], list[Message]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as the same one was answered before."""
        body, more = b"", True
        while more:
            part = await receive()
            body += part.get("body", b"")
            more = part.get("more_body", False)
        asked = (scope["path"], body)
        if asked not in self._known:
            said: list[Message] = []

            async def repeat() -> Message:
                return {"type": "http.request", "body": body}

            async def keep(message: Message) -> None:
                said.append(message)

            await super().__call__(scope, repeat, keep)
            self._known[asked] = said
        for message in self._known[asked]:
            await send(message)


def _serve(pipe: Connection, pages: int) -> None:
    sandbox = ReadyRoam(SystemClock(), pages=pages, limit=REQUESTS_PER_MIN, cold_requests=0)
    with serving(sandbox) as url:
        pipe.send((url, sandbox.token()))
        pipe.recv()


async def measure(report: Report, graph: Graph, folder: Path, pages: int) -> None:
    """A first run, and one that finds nothing to do."""
    console.print(f"[bold]{pages:,} pages[/]")
    parts: Parts = defaultdict(float)
    with timed_index(parts):
        # Neither the model nor the driver is loaded for each run, and Roam has its answers ready.
        embedder = TimedEmbedder(parts)
        async with connected(graph, folder / RUNS[0], embedder, parts) as app:
            await run(app, parts, updated=pages)
        async with connected(graph, folder / RUNS[1], embedder, parts) as app:
            first = await run(app, parts, updated=pages)
            second = await run(app, parts, updated=0)
    report.add("pages_per_s", pages / first.seconds, "pages/s", ", first run")
    report.add("overhead_share", 1 - first.share("embedding", "index"), "of the time")
    report.add("roam_share", first.share("roam"), "of the time", ", waiting for Roam")
    report.add("embedding_share", first.share("embedding"), "of the time")
    report.add("index_share", first.share("index"), "of the time")
    report.add("idle_run_s", second.seconds, "s", ", nothing has changed")


async def run(app: App, parts: Parts, *, updated: int) -> Took:
    """A run from its start to its end."""
    parts.clear()
    supervisor = app.supervisor()
    await supervisor.start()
    began = time.perf_counter()
    job = (await NotesIndex(app).start(RunRequest(user_id=USER))).job
    while not (job := await app.jobs.get(job.id)).ended:
        await app.clock.sleep(LOOK_S)
    took = Took(time.perf_counter() - began, parts.copy())
    await supervisor.stop()
    assert job.state is JobState.SUCCESS, job.error
    assert job.summary.counts.get("updated", 0) == updated, job.summary
    return took


@asynccontextmanager
async def connected(
    graph: Graph, folder: Path, embedder: Embedder, parts: Parts
) -> AsyncIterator[App]:
    """The system on a SQLite file, with the time that its requests take."""
    settings = NotesIndexSettings(
        roam_url=graph.url, roam_requests_per_min=REQUESTS_PER_MIN, notes_folder=folder / "index"
    )
    indexes = indexes_of(settings, embedder)
    sync = notes_index(settings.roam(), indexes, batch=settings.notes_batch)
    port = urlsplit(graph.url).port
    assert port is not None
    transport = AiohttpTransport(AddressRules(private=LOOPBACK, ports=frozenset({port})))
    app = App(
        f"sqlite:///{folder}/bench.db",
        systems=[system.with_syncs([sync], settings)],
        transport=transport,
        vault=vault(),
    )
    with patch.object(transport, "send", timed(parts, "roam", transport.send)):
        async with app:
            await app.connections.connect_with_token(
                ROAM, user_id=USER, token=Secret(graph.token), external_id="graph-1"
            )
            yield app
        await transport.close()


@contextmanager
def timed_index(parts: Parts) -> Iterator[None]:
    """Add the time of all that is asked of the vector index."""
    patches = [
        patch.object(kind, name, timed(parts, "index", getattr(kind, name)))
        for kind, names in _INDEX.items()
        for name in names
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def timed(
    parts: Parts, name: str, work: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    """The same, with the time that it takes added to a part."""

    async def measured(*args: Any, **named: Any) -> Any:
        began = time.perf_counter()
        done = await work(*args, **named)
        parts[name] += time.perf_counter() - began
        return done

    return measured


if __name__ == "__main__":
    main()
