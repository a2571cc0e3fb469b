"""Real workers of the notes index, killed, stopped and raced: no page missed, none done twice."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from headgate import App, JobState, Secret, SystemClock
from headgate.connectors.roam.api import NAME as ROAM
from headgate.errors import ActiveJobExists
from headgate.model.states import JOB
from headgate.systems.notes_index.plan import page_key
from headgate.systems.notes_index.run_view import RunSummary, run_of
from headgate.systems.notes_index.service import NotesIndex, RunRequest
from headgate.systems.notes_index.source import RoamNotes
from headgate.systems.notes_index.syncs import NAME
from headgate.types import Connection, Job
from headgate_sandbox.roam.sandbox import Roam
from headgate_sandbox.serving import serving
from tests.connecting import key_entries
from tests.processes import Process
from tests.systems.notes_index.held_worker import EMBEDDING, SETTLING, application

pytestmark = pytest.mark.slow

PAGES, BATCH = 12, 4
#: Of a run: the plan is settled first, then each batch.
BATCHES = PAGES // BATCH
WAIT_S_MAX = 60.0
USER = "ann"


class Room:
    """A graph that is served, its index, and the workers between them."""

    def __init__(self, app: App, roam: Roam, connection: Connection, embedded: Path) -> None:
        self.app = app
        self.roam = roam
        self.notes = NotesIndex(app)
        self._connection = connection
        self._embedded = embedded
        self._workers: list[Process] = []

    async def work(self, hold_at: str = "") -> Process:
        """Start a worker, and wait until it works."""
        environment = {**os.environ, "HOLD_AT": hold_at}
        worker = Process("tests.systems.notes_index.held_worker", environment=environment)
        self._workers.append(worker)
        await asyncio.to_thread(worker.wait_for_line, "ready")
        return worker

    async def held(self, point: str, count: int) -> Process:
        """Start a worker, and wait until it holds at the point."""
        worker = await self.work(f"{point}:{count}")
        await asyncio.to_thread(worker.wait_for_line, "holding")
        return worker

    def end(self) -> None:
        """Kill every worker."""
        for worker in self._workers:
            worker.end()

    async def start(self) -> Job:
        """Start a run."""
        return (await self.notes.start(RunRequest(user_id=USER))).job

    async def ended(self, job_id: str) -> Job:
        """The run, once it has ended."""
        deadline = self.app.clock.monotonic() + WAIT_S_MAX
        while (job := await self.app.jobs.get(job_id)).state not in JOB.terminal:
            assert self.app.clock.monotonic() < deadline, (job.state, job.reason, job.error)
            await self.app.clock.sleep(0.05)
        return job

    async def summary(self, job: Job) -> RunSummary:
        """What the run tells of itself."""
        told = run_of(job, await self.app.jobs.view(job)).summary
        assert told is not None
        return told

    @property
    def titles(self) -> Counter[str]:
        """Every page of the graph, once."""
        return Counter(head.title for head in self.roam.graph().heads())

    def batches(self) -> list[list[str]]:
        """The titles of the pages of every call of the embedder, in all workers."""
        lines = self._embedded.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=list[str]) for line in lines]

    def embedded(self) -> Counter[str]:
        """How often each page was given to an embedder."""
        return Counter(title for batch in self.batches() for title in batch)

    async def indexed(self) -> set[str]:
        """The uids of the pages in the index."""
        source = self.app.registry.get(NAME).source
        assert isinstance(source, RoamNotes)
        return await source.indexes.of(USER, self._connection.id).page_uids()

    async def stored(self) -> set[str]:
        """The keys of the records in the store: pages, and what is left of a plan."""
        records = await self.app.records.list(NAME, self._connection.id, limit=1000)
        return {record.key for record in records}

    async def judge(self) -> None:
        """The index has every page of the graph, and the store knows of the same pages."""
        uids = {head.uid for head in self.roam.graph().heads()}
        assert await self.indexed() == uids
        assert await self.stored() == {page_key(uid) for uid in uids}


@contextmanager
def surroundings(address: str, folder: Path, roam: str) -> Iterator[None]:
    """The settings of this process and of all that it starts."""
    keys = folder / "keys"
    keys.write_text(key_entries("k1")[0], encoding="ascii")
    keys.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "EMBEDDED": str(folder / "embedded"),
            "HEADGATE_DATABASE": address,
            "HEADGATE_KEY_FILE": str(keys),
            "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
            "HEADGATE_ROAM_URL": roam,
            "HEADGATE_ROAM_REQUESTS_PER_MIN": "10000",
            "HEADGATE_NOTES_FOLDER": str(folder / "index"),
            "HEADGATE_NOTES_BATCH": str(BATCH),
        }.items():
            patch.setenv(name, value)
        yield


@asynccontextmanager
async def in_room(address: str, folder: Path) -> AsyncIterator[Room]:
    """A graph of three batches that is served on loopback and connected; nobody works yet."""
    roam = Roam(SystemClock(), pages=PAGES, limit=10_000, cold_requests=0)
    with serving(roam) as url, surroundings(address, folder, url):
        async with application() as app:
            connection = await app.connections.connect_with_token(
                ROAM, user_id=USER, token=Secret(roam.token()), external_id="graph-1"
            )
            room = Room(app, roam, connection, folder / "embedded")
            try:
                yield room
            finally:
                room.end()


@pytest.fixture
async def postgres_room(postgres_address: str, tmp_path: Path) -> AsyncIterator[Room]:
    """On Postgres."""
    async with in_room(postgres_address, tmp_path) as room:
        yield room


@pytest.fixture
async def room(sqlite_address: str, tmp_path: Path) -> AsyncIterator[Room]:
    """On SQLite."""
    async with in_room(sqlite_address, tmp_path) as room:
        yield room


async def kill(worker: Process) -> None:
    worker.send_signal(signal.SIGKILL)
    assert await asyncio.to_thread(worker.wait) == -signal.SIGKILL


def go_on(worker: Process) -> None:
    """Let a worker that holds go on."""
    worker.stdin.write("go on\n")
    worker.stdin.flush()


# ---- killed and stopped ------------------------------------------------------------------------


async def test_a_worker_killed_in_the_embedder_misses_no_page_and_repeats_one_batch(
    postgres_room: Room,
) -> None:
    room = postgres_room
    # Given a run that is killed while its second batch is being embedded
    run = await room.start()
    await kill(await room.held(EMBEDDING, 2))
    first, second = room.batches()
    assert len(await room.indexed()) == BATCH

    # When another worker takes over
    await room.work()
    job = await room.ended(run.id)

    # Then the batch in hand was embedded again, every other page once, and none was missed
    assert (job.state, job.summary.crashes) == (JobState.SUCCESS, 1)
    assert room.embedded() == room.titles + Counter(second)
    assert room.batches()[2] == second and not set(first) & set(second)
    told = await room.summary(job)
    assert (told.total_pages, told.processed, told.updated) == (PAGES, PAGES, PAGES)
    assert (told.skipped_content, told.failed) == (0, 0)
    await room.judge()


@pytest.mark.fault(1)
async def test_a_worker_killed_between_the_index_and_the_commit_embeds_nothing_again(
    room: Room,
) -> None:
    # Given a run that is killed when its second batch is in the index, and not committed
    run = await room.start()
    worker = await room.held(SETTLING, 3)
    assert len(await room.indexed()) == 2 * BATCH
    assert (await room.app.jobs.get(run.id)).progress.done == BATCH
    await kill(worker)

    # When another worker takes over
    await room.work()
    job = await room.ended(run.id)

    # Then no page was embedded twice, and each is counted once
    assert (job.state, job.summary.crashes) == (JobState.SUCCESS, 1)
    assert room.embedded() == room.titles
    told = await room.summary(job)
    assert (told.processed, told.updated, told.skipped_content) == (PAGES, PAGES, 0)
    await room.judge()

    # And the next run finds nothing to do
    job = await room.ended((await room.start()).id)
    assert ((await room.summary(job)).skipped_since, room.embedded()) == (PAGES, room.titles)


# ---- cancelled as it completes -----------------------------------------------------------------


async def test_a_run_cancelled_in_its_last_batch_leaves_that_batch_for_the_next(room: Room) -> None:
    # Given a run that is cancelled while its last batch is being embedded
    run = await room.start()
    await room.held(EMBEDDING, BATCHES)
    assert (await room.notes.cancel(user_id=USER)).state is JobState.CANCELLING
    job = await room.ended(run.id)

    # Then the store knows of exactly the pages that are indexed
    assert job.state is JobState.CANCELLED
    indexed = await room.indexed()
    assert len(indexed) == PAGES - BATCH
    pages = {key for key in await room.stored() if key.startswith(page_key(""))}
    assert pages == {page_key(uid) for uid in indexed}

    # And a new run indexes what is left, and nothing else
    await room.work()
    job = await room.ended((await room.start()).id)
    assert (job.state, (await room.summary(job)).updated) == (JobState.SUCCESS, BATCH)
    assert room.embedded() == room.titles + Counter(room.batches()[-1])
    await room.judge()


async def test_a_run_cancelled_when_all_is_indexed_succeeds(room: Room) -> None:
    # Given a run that is cancelled when its last batch is in the index, and not committed
    run = await room.start()
    worker = await room.held(SETTLING, 1 + BATCHES)
    assert (await room.notes.cancel(user_id=USER)).state is JobState.CANCELLING
    with pytest.raises(ActiveJobExists):
        await room.start()
    go_on(worker)

    # Then there was nothing left to cancel, and the store has what the index has
    job = await room.ended(run.id)
    assert (job.state, (await room.summary(job)).updated) == (JobState.SUCCESS, PAGES)
    await room.judge()

    # And a new run finds nothing to do
    job = await room.ended((await room.start()).id)
    assert (job.state, (await room.summary(job)).processed) == (JobState.SUCCESS, 0)
    assert room.embedded() == room.titles
