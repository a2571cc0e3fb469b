"""A vector index survives its processes: killed in mid-write, racing, without room or rights."""

import select
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headgate.connectors.vectors import VectorCollection
from tests.faults.vector_worker import DOCUMENTS, RACES, version
from tests.processes import Process, started
from tests.vectors import document, opened, texts_of

MODULE = "tests.faults.vector_worker"
#: When to kill, counted from the beginning of a write, which takes about ten milliseconds.
KILL_AFTER_MS = [3, *(pytest.param(each, marks=pytest.mark.thorough) for each in (0, 8))]


def _go(*workers: Process) -> None:
    for worker in workers:
        worker.wait_for_line("ready")
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()


async def _versions(notes: VectorCollection) -> list[int]:
    """The version that each document has, each of which must be whole."""
    numbers = []
    for each in range(DOCUMENTS):
        texts = await texts_of(notes, f"page-{each}")
        assert texts, f"page-{each} is lost"
        number = int(texts[0].partition("/")[0])
        pieces = [piece.text for piece in version(f"page-{each}", number).pieces]
        assert texts == sorted(pieces), f"page-{each} is a mixture"
        numbers.append(number)
    return numbers


@pytest.mark.parametrize("after_ms", KILL_AFTER_MS)
async def test_a_writer_that_is_killed_loses_no_document_and_leaves_no_mixture(
    tmp_path: Path, after_ms: int
) -> None:
    with started(MODULE, str(tmp_path), "rewrite", "w") as worker:
        _go(worker)
        worker.wait_for_line("done 2")
        last = int(worker.wait_for_line("begin").split()[1]) - 1
        # Until the write has ended, or it is time.
        select.select([worker.stdout], [], [], after_ms / 1000)
        worker.send_signal(signal.SIGKILL)
        assert worker.wait() == -signal.SIGKILL

    # When it was killed, every document is whole, and none is older than what was said
    notes = await opened(tmp_path)
    numbers = await _versions(notes)
    assert min(numbers) >= last

    # And the next write leaves nothing of the old versions
    await notes.upsert([version(f"page-{each}", 1_000) for each in range(DOCUMENTS)])
    assert await _versions(notes) == [1_000] * DOCUMENTS
    assert await notes.count() == DOCUMENTS


@pytest.mark.thorough
async def test_processes_that_add_the_same_documents_at_once_leave_one_version_of_each(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        names = ["ann", "bob"]
        workers = [
            stack.enter_context(started(MODULE, str(tmp_path / "index"), "race", name))
            for name in names
        ]
        _go(*workers)
        assert [worker.wait() for worker in workers] == [0, 0], [w.stderr.read() for w in workers]

    notes = await opened(tmp_path / "index")
    own = {f"{name}-{number}" for name in names for number in range(RACES)}
    assert await notes.document_ids() == own | {f"all-{number}" for number in range(RACES)}
    for number in range(RACES):
        texts = await texts_of(notes, f"all-{number}")
        winner = texts[0].split()[0]
        assert texts == [f"{winner} one", f"{winner} two", "same"]
    found = await notes.search([1.0] * 8, limit=1000)
    assert max(Counter(hit.piece_id for hit in found).values()) == 1
    assert await notes.count() == len(names) * RACES + 3 * RACES


@pytest.mark.thorough
async def test_a_disk_that_is_full_is_told_and_harms_nothing(tmp_path: Path) -> None:
    notes = await opened(tmp_path)
    await notes.upsert([document("page", "as it was")])

    with started(MODULE, str(tmp_path), "full", "w") as worker:
        _go(worker)
        said = worker.wait_for_line("failed")

    assert said.startswith("failed Transient: the vector index in")
    assert "cannot grow" in said
    assert await texts_of(notes, "page") == ["as it was"]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that a process without rights can at least reach."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    for each in [folder, *folder.rglob("*")]:
        if each.is_dir():
            each.chmod(0o700)
    shutil.rmtree(folder)


@pytest.mark.thorough
async def test_a_folder_that_cannot_be_written_is_told_and_can_still_be_searched(
    public_folder: Path,
) -> None:
    notes = await opened(public_folder)
    await notes.upsert([document("page", "as it was")])
    for each in [*public_folder.rglob("*"), public_folder]:
        each.chmod(0o555 if each.is_dir() else 0o444)

    with started(MODULE, str(public_folder), "read-only", "w") as worker:
        _go(worker)
        said = worker.wait_for_line("failed")

    assert said.startswith("failed Terminal: the vector index in")
    assert "give this process the right to write" in said
    assert await texts_of(notes, "page") == ["as it was"]
