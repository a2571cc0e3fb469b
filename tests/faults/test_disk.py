"""Disks that are full, read-only or broken, and files that vanish: told as that, nothing lost."""

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headgate import App, Chunk, Context, JobState, Mode, Reason, Record, Sync
from headgate.base.clock import ManualClock
from headgate.base.errors import (
    FaultKind,
    StoreFault,
)
from headgate.store.sql.engine.database import FAULT_S
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.types import Job
from tests.faults.failing_vfs import BadDisk, bad_disk
from tests.stores import START, in_use, raises_fault
from tests.unit.store.sql.words import put, words, words_file
from tests.worlds import ScriptedSource, World, in_world, lanes

MIB = 2**20
HOUR_S = 3600.0


# ---- full --------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, *, mib: int) -> Iterator[Path]:
    """A file system of its own, so small."""
    place = folder / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def make_read_only(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)


def fill(place: Path, *, leave: int) -> Path:
    """A file that leaves so many bytes free."""
    ballast = place / "ballast"
    free = shutil.disk_usage(place).free
    ballast.write_bytes(bytes(max(0, free - leave)))
    return ballast


def large(size: int) -> Chunk:
    return Chunk(records=[Record("a", {"text": os.urandom(size // 2).hex()})])


async def submit(app: App, user: str = "ada") -> Job:
    submitted = await app.jobs.submit("pages", user_id=user, mode=Mode.FULL)
    return submitted.job


async def waits_for_the_disk(world: World, app: App, job: Job) -> None:
    """Hours pass, in which the job waits, says why, and nothing counts against it."""
    reasons = set()
    for _ in range(15):
        await world.clock.sleep(HOUR_S / 10)
        job = await app.jobs.get(job.id)
        if job.state is JobState.PENDING and job.wake_at and job.wake_at > world.clock.now():
            reasons.add(job.reason)
            view = await app.jobs.view(job)
            assert view.message.startswith("Our disk is full, so nothing can be stored; trying")
    assert reasons == {Reason.DISK_FULL}
    assert (job.attempts, job.crashes, job.pauses) == (0, 0, 0)
    assert (job.summary.errors, job.summary.crashes, job.summary.pauses) == (0, 0, 0)
    with raises_fault(FaultKind.DISK_FULL):
        await app.ping()


@pytest.mark.fault(24)
def test_a_chunk_that_does_not_fit_waits_until_there_is_space(tmp_path: Path) -> None:
    async def main(world: World, place: Path) -> None:
        # Given a disk with room for small writes, but not for the chunk
        async def read(ctx: Context) -> Chunk:
            return large(2 * MIB)

        app = await world.app(Sync(name="pages", source=ScriptedSource(read)))
        job = await submit(app)
        ballast = fill(place, leave=MIB)
        await app.supervisor().start()

        await waits_for_the_disk(world, app, job)

        # When there is space again, it ends by itself, and health is good again
        ballast.unlink()
        job = await world.until(app, job.id, limit_s=300)
        assert (job.state, job.summary.records, job.crashes) == (JobState.SUCCESS, 1, 0)
        await world.clock.sleep(FAULT_S)
        await app.ping()

    with small_disk(tmp_path, mib=16) as place:
        in_world(place, lambda world: main(world, place))


@pytest.mark.fault(24)
def test_a_disk_without_any_space_is_no_lost_worker(tmp_path: Path) -> None:
    async def main(world: World, place: Path) -> None:
        # Given a disk that fills up to the last byte while a chunk is read
        filled = asyncio.Event()

        async def read(ctx: Context) -> Chunk:
            await filled.wait()
            return large(MIB)

        app = await world.app(
            Sync(name="pages", source=ScriptedSource(read)), worker=lanes(lease_s=15.0)
        )
        job = await submit(app)
        await app.supervisor().start()
        await world.until(app, job.id, JobState.RUNNING)
        # The log must grow for every further write.
        checkpointer = sqlite3.connect(place / "world-None.db")
        checkpointer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        checkpointer.close()
        ballast = fill(place, leave=0)
        filled.set()

        # Then an hour later everybody is told what is the matter, though nothing could be written
        await world.clock.sleep(HOUR_S)
        view = await app.jobs.view(await app.jobs.get(job.id))
        assert view.message.startswith("The disk of the database is full. It goes on once that is")
        assert view.operator is not None
        assert (view.operator.waits_for or "").startswith("StoreFault: ")
        with raises_fault(FaultKind.DISK_FULL):
            await submit(app, "bob")
        with raises_fault(FaultKind.DISK_FULL):
            await app.ping()

        # And when there is space, the job goes on as if nothing had happened
        ballast.unlink()
        job = await world.until(app, job.id, limit_s=300)
        assert job.state is JobState.SUCCESS
        assert (job.summary.crashes, job.summary.errors) == (0, 0)

    with small_disk(tmp_path, mib=16) as place:
        in_world(place, lambda world: main(world, place))


async def test_a_file_larger_than_the_process_may_write_is_an_error_of_the_disk(
    tmp_path: Path,
) -> None:
    # Given a process that may not write files larger than what is there: the real EFBIG
    async with words_file(tmp_path / "words.db") as database:
        await database.write(put("a"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
        try:
            with raises_fault(FaultKind.DISK_BROKEN):
                await database.write(put("b" * MIB))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await database.write(put("c"))
        assert await words(database) == ["a", "c"]


@pytest.mark.fault(27)
async def test_a_read_only_disk_is_told_when_the_database_is_opened(tmp_path: Path) -> None:
    with small_disk(tmp_path, mib=4) as place:
        async with words_file(place / "words.db"):
            pass
        make_read_only(place)
        database = SqliteDatabase(place / "words.db", ManualClock(START))
        with raises_fault(FaultKind.DISK_READ_ONLY):
            await database.open()
        replaced = {FaultKind.DATABASE_REPLACED, FaultKind.DISK_READ_ONLY}
        fault = database.find_fault()
        assert fault is not None and fault.kind in replaced


# ---- a failing layer below SQLite --------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[BadDisk]:
    with bad_disk() as disk:
        yield disk


@pytest.fixture
async def database(disk: BadDisk, tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    async with words_file(tmp_path / "words.db") as database:
        await database.write(put("a"))
        yield database


@pytest.mark.parametrize(
    ("what", "code", "fault"),
    [
        ("write_result", sqlite3.SQLITE_FULL, FaultKind.DISK_FULL),
        ("write_result", sqlite3.SQLITE_READONLY, FaultKind.DISK_READ_ONLY),
        ("write_result", sqlite3.SQLITE_IOERR_WRITE, FaultKind.DISK_BROKEN),
        ("sync_result", sqlite3.SQLITE_IOERR_FSYNC, FaultKind.DISK_BROKEN),
    ],
)
@pytest.mark.fault(26, 27)
async def test_a_write_or_sync_that_fails_is_not_acknowledged_and_told_as_what_it_is(
    database: SqliteDatabase, disk: BadDisk, what: str, code: int, fault: FaultKind
) -> None:
    setattr(disk, what, code)
    with raises_fault(fault):
        await database.write(put("b"))
    assert disk.failures
    if what == "write_result":
        with raises_fault(fault):
            await database.ping()
        # What was committed can still be read.
        assert await words(database) == ["a"]

    disk.heal()
    await database.write(put("c"))
    # What was written and not synced may be there or not.
    assert set(await words(database)) - ({"b"} if what == "sync_result" else set()) == {"a", "c"}


@pytest.mark.fault(26, 27)
async def test_whichever_write_or_sync_fails_what_was_acknowledged_is_there(
    disk: BadDisk, tmp_path: Path
) -> None:
    # Given a disk that breaks at the first write or sync, then at the second, and so on
    failed, healthy, broke = 0, -1, True
    acknowledged: list[str] = []
    while broke:
        healthy += 1
        async with words_file(tmp_path / f"{healthy}.db") as database:
            acknowledged = []
            disk.write_result = disk.sync_result = sqlite3.SQLITE_IOERR
            disk.healthy, before = healthy, disk.failures
            with suppress(StoreFault):
                for word in ("a", "b" * 10_000, "c"):
                    await database.write(put(word))
                    acknowledged.append(word)
            broke = disk.failures > before
            files = copy_files(database.path, tmp_path / f"left {healthy}")
            disk.heal()
        # Then nothing was acknowledged that is not there when the files are opened again
        assert (await survivors(files))[: len(acknowledged)] == acknowledged
        failed += len(acknowledged) < 3
    assert acknowledged == ["a", "b" * 10_000, "c"]
    assert failed == healthy > 5


@pytest.mark.parametrize("torn", [0.1, 0.5, 0.99])
@pytest.mark.fault(26)
async def test_a_torn_write_leaves_what_was_acknowledged_and_nothing_of_the_rest(
    database: SqliteDatabase, disk: BadDisk, tmp_path: Path, torn: float
) -> None:
    # Given a power cut in the middle of a write to the log
    disk.write_result, disk.torn = sqlite3.SQLITE_IOERR_WRITE, torn
    with raises_fault(FaultKind.DISK_BROKEN):
        await database.write(put("b" * 10_000))
    files = copy_files(database.path, tmp_path / "after")

    # When the files are opened again as they were left
    disk.heal()
    assert await survivors(files) == ["a"]


@pytest.mark.fault(26)
async def test_a_log_that_is_cut_anywhere_holds_the_first_writes_and_no_half(
    tmp_path: Path,
) -> None:
    async with words_file(tmp_path / "words.db") as database:
        for number in range(8):
            await database.write(put(f"word {number}"))
        files = copy_files(database.path, tmp_path / "whole")
    whole = Path(f"{files}-wal").read_bytes()
    assert len(whole) > 8 * 4096
    counts = []
    for end in range(0, len(whole), len(whole) // 25):
        cut = copy_files(files, tmp_path / f"cut {end}")
        Path(f"{cut}-wal").write_bytes(whole[:end])
        counts.append(len(found := await survivors(cut)))
        assert found == [f"word {number}" for number in range(len(found))]
    # Somewhere between nothing and everything
    assert counts == sorted(counts)
    assert len(set(counts)) > 5


def copy_files(path: Path, folder: Path) -> Path:
    """The database and its log as they are on the disk, elsewhere; the path of the copy."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        if Path(f"{path}{suffix}").exists():
            shutil.copyfile(f"{path}{suffix}", folder / f"{path.name}{suffix}")
    return folder / path.name


async def survivors(path: Path) -> list[str]:
    """The words in a file that was left behind, which must be in order."""
    async with in_use(database := SqliteDatabase(path, ManualClock(START))):
        check = "PRAGMA integrity_check"
        assert await database.read(lambda tx: tx.exec_driver_sql(check).scalar_one()) == "ok"
        tables = "SELECT count(*) FROM sqlite_master"
        if not await database.read(lambda tx: tx.exec_driver_sql(tables).scalar_one()):
            return []
        return await words(database)


async def test_a_damaged_file_is_told_as_that(tmp_path: Path) -> None:
    path = tmp_path / "words.db"
    async with words_file(path) as database:
        for number in range(300):
            await database.write(put(f"{number} " + "x" * 2000))
    damaged = bytearray(path.read_bytes())
    damaged[4096:-4096] = os.urandom(len(damaged) - 2 * 4096)
    path.write_bytes(damaged)
    async with in_use(database := SqliteDatabase(path, ManualClock(START))):
        with raises_fault(FaultKind.DISK_BROKEN):
            await words(database)
        fault = database.find_fault()
        assert fault is not None and fault.kind is FaultKind.DISK_BROKEN


# ---- files that vanish -------------------------------------------------------------------------


async def read_nothing(ctx: Context) -> Chunk:
    return Chunk()


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: Path(f"{path}-wal").unlink(),
        lambda path: path.rename(path.with_name("moved.db")),
        lambda path: os.replace(shutil.copyfile(path, path.with_name("backup.db")), path),
    ],
    ids=["removed", "log removed", "moved away", "backup restored"],
)
@pytest.mark.fault(27)
async def test_a_job_is_not_acknowledged_into_a_file_that_nobody_will_find(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    # Given a process with its database open
    path = tmp_path / "headgate.db"
    sync = Sync(name="pages", source=ScriptedSource(read_nothing))
    async with App(f"sqlite:///{path}", syncs=[sync]) as app:
        await submit(app)

        # When the file is deleted or replaced
        harm(path)

        # Then nothing is accepted, health says so, and nobody is told old news
        with pytest.raises(StoreFault, match="was deleted or replaced while it was in use"):
            await submit(app, "bob")
        with pytest.raises(StoreFault, match="put the file back, or restart"):
            await app.ping()
        with raises_fault(FaultKind.DATABASE_REPLACED):
            await app.jobs.list()
