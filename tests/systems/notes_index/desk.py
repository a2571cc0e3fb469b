"""The notes index on either database, with a worker, and a Roam in the same process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headgate import App, JobState, Secret, SystemClock, Terminal, WorkerSettings
from headgate.connectors.roam.api import NAME as ROAM
from headgate.connectors.roam.api import URL
from headgate.connectors.vectors import Embedder, Vector
from headgate.secrets.keys import KeyRing
from headgate.systems.notes_index import system
from headgate.systems.notes_index.graph_index import GraphIndex
from headgate.systems.notes_index.service import NotesIndex, RunRequest
from headgate.systems.notes_index.settings import ClearBy, NotesIndexSettings
from headgate.systems.notes_index.source import RoamNotes
from headgate.systems.notes_index.syncs import NAME, indexes_of, notes_index
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import Connection, Job
from headgate.web.server import build
from headgate_sandbox.roam.sandbox import Roam
from tests.connecting import Wire, vault
from tests.vectors import LetterEmbedder
from tests.web.callers import Client, Served

PEER = "https://peer-7.api.roamresearch.com:3001"
USER = "ann"


class CountingEmbedder:
    """Notes the texts that it is given, and refuses those with a word that nobody can embed."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder or LetterEmbedder()
        self.name = self._embedder.name
        self.dimensions = self._embedder.dimensions
        self.texts: list[str] = []
        self.refuses: str | None = None
        #: Awaited before anything is embedded: to stop a run there.
        self.hold = asyncio.Event()
        self.hold.set()
        self.held = asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if self.refuses is not None and any(self.refuses in text for text in texts):
            raise Terminal("nobody can embed that")
        if not self.hold.is_set():
            self.held.set()
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                # As a thread would, which cannot be stopped.
                await self.hold.wait()
                raise
        self.texts += texts
        return await self._embedder.embed(texts)

    @property
    def titles(self) -> list[str]:
        """The titles of the pages that were embedded, in order, once for each time."""
        first = (text.partition("\n")[0] for text in self.texts if text.startswith("[["))
        return [line.removeprefix("[[").removesuffix("]]") for line in first]


class Desk(Served):
    """A graph, its index, and runs between them."""

    def __init__(
        self, app: App, roam: Roam, wire: Wire, embedder: CountingEmbedder, connection: Connection
    ) -> None:
        super().__init__(app, build(app, keys=KeyRing.for_demo()))
        self.roam = roam
        self.wire = wire
        self.embedder = embedder
        self.connection = connection
        self.notes = NotesIndex(app)

    async def start(self, **wanted: Any) -> Job:
        """Start a run."""
        request = RunRequest(user_id=USER, **wanted)
        return (await self.notes.start(request)).job

    async def run(self, **wanted: Any) -> Job:
        """Start a run, and wait until it has ended."""
        return await self.ended((await self.start(**wanted)).id)

    async def ended(self, job_id: str) -> Job:
        """The run, once it has ended."""
        return await self.until(job_id, *(each for each in JobState if each not in _ACTIVE))

    async def until(self, job_id: str, *states: JobState) -> Job:
        """The run, once it is in one of these states."""
        while (job := await self.app.jobs.get(job_id)).state not in states:
            await self.app.clock.sleep(0.01)
        return job

    async def ann(self) -> Client:
        """A client of the user whose graph it is."""
        return await self.client(user_id=USER)

    @property
    def index(self) -> GraphIndex:
        """The index of the graph."""
        source = self.app.registry.get(NAME).source
        assert isinstance(source, RoamNotes)
        return source.indexes.of(USER, self.connection.id)

    def requests(self) -> int:
        """How many requests Roam itself has answered, and not by a redirect."""
        return sum(1 for each in self.wire.sent if each.url.startswith(PEER))


_ACTIVE = (JobState.PENDING, JobState.RUNNING, JobState.PAUSED, JobState.CANCELLING)


@asynccontextmanager
async def at_desk(
    address: str,
    folder: Path,
    *,
    pages: int = 30,
    batch: int = 7,
    embedder: CountingEmbedder | None = None,
    clear_by: ClearBy = ClearBy.ADMIN,
    **roam: Any,
) -> AsyncIterator[Desk]:
    """A graph of so many pages, connected, with a worker on the database at that address."""
    clock = SystemClock()
    given = {"pages": pages, "peer": PEER, "limit": 10_000, "cold_requests": 0, **roam}
    sandbox = Roam(clock, **given)
    wire = Wire(AsgiTransport({URL: sandbox, PEER: sandbox}, clock))
    settings = NotesIndexSettings(
        notes_folder=folder / "index",
        notes_batch=batch,
        roam_requests_per_min=10_000,
        notes_clear_by=clear_by,
    )
    embedder = embedder or CountingEmbedder()
    sync = notes_index(settings.roam(), indexes_of(settings, embedder), batch=batch)
    app = App(
        address,
        systems=[system.with_syncs([sync], settings)],
        transport=wire,
        vault=vault(),
        worker=WorkerSettings(grace_s=1),
    )
    await app.migrate()
    async with app:
        connection = await app.connections.connect_with_token(
            ROAM, user_id=USER, token=Secret(sandbox.token()), external_id="graph-1"
        )
        supervisor = app.supervisor()
        await supervisor.start()
        try:
            yield Desk(app, sandbox, wire, embedder, connection)
        finally:
            embedder.hold.set()
            await supervisor.stop()
