"""The locks of workers on a SQLite file: free when the process has died, and not before."""

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.signals.file_locks import FileLocks
from headgate.signals.process_folder import LOCK, ProcessFolder
from tests.processes import Process, started


@pytest.fixture
def folder(tmp_path: Path) -> ProcessFolder:
    """The folder next to a database."""
    return ProcessFolder(tmp_path / "jobs.db")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Process]:
    """A process that holds the lock of `worker`, until it is told to stop or is killed."""
    with started("tests.unit.signals.lock_holder", str(tmp_path / "jobs.db"), "worker") as process:
        process.wait_for_line("held")
        yield process


async def test_a_worker_that_was_killed_is_dead_and_one_that_is_frozen_is_not(
    folder: ProcessFolder, worker: Process
) -> None:
    locks = FileLocks(folder)
    assert list(await locks.find_dead(["worker", "unknown"])) == []

    worker.send_signal(signal.SIGSTOP)
    assert list(await locks.find_dead(["worker"])) == []

    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert list(await locks.find_dead(["worker", "unknown"])) == ["worker"]
    # Until somebody has dealt with it, everybody finds it.
    assert list(await FileLocks(folder).find_dead(["worker"])) == ["worker"]
    # Who looks at the same moment is not taken for the worker.
    with folder.place("worker", LOCK).open("rb") as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        assert list(await FileLocks(folder).find_dead(["worker"])) == ["worker"]
    # What is left of one that was dealt with is removed.
    assert list(await FileLocks(folder).find_dead([])) == []
    assert list(folder.files(LOCK)) == []


async def test_a_lock_that_is_held_is_not_removed_by_those_who_do_not_know_it(
    folder: ProcessFolder,
) -> None:
    own, others = FileLocks(folder), FileLocks(folder)
    await own.hold("worker")

    assert list(await others.find_dead([])) == []

    assert own.held
    assert len(list(folder.files(LOCK))) == 1
    await own.release()


async def test_a_lock_is_held_once_and_freed_with_the_folder(folder: ProcessFolder) -> None:
    locks = FileLocks(folder)
    await locks.hold("worker")
    await locks.hold("worker")
    [file] = folder.files(LOCK)
    assert file.stat().st_mode & 0o777 == 0o600

    await locks.release()
    await locks.release()

    assert not locks.held
    assert not folder.path.exists()


async def test_a_worker_whose_file_was_deleted_is_not_judged(folder: ProcessFolder) -> None:
    own, others = FileLocks(folder), FileLocks(folder)
    await own.hold("worker")
    [file] = folder.files(LOCK)
    file.unlink()

    assert list(await others.find_dead(["worker"])) == []
    await own.release()


async def test_a_file_that_is_removed_before_it_is_locked_is_made_again(
    folder: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given another process that takes the new file for nobody's, just before it is locked
    flock = fcntl.flock
    removed: list[int] = []

    def remove_first(descriptor: int, how: int) -> None:
        if not removed:
            removed.append(os.fstat(descriptor).st_ino)
            folder.place("worker", LOCK).unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)

    # When a worker holds its lock, then it is the file that others find
    locks = FileLocks(folder)
    await locks.hold("worker")

    assert removed
    [file] = folder.files(LOCK)
    assert locks._descriptor is not None
    assert os.path.samestat(file.stat(), os.fstat(locks._descriptor))
    await locks.release()


async def test_a_file_that_is_removed_again_and_again_leaves_the_worker_without_a_lock(
    folder: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def remove(descriptor: int, how: int) -> None:
        folder.place("worker", LOCK).unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", remove)

    locks = FileLocks(folder)
    await locks.hold("worker")

    assert not locks.held
