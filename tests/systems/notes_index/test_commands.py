"""`headgate notes …` with a worker in a process of its own, and a Roam that is served."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from headgate import SystemClock
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.roam.graph import Edit, NewBlock, NewPage
from headgate_sandbox.roam.sandbox import Roam
from headgate_sandbox.serving import serving
from tests import processes
from tests.connecting import key_entries
from tests.systems.commands import run_here
from tests.terminal import on_terminal

pytestmark = pytest.mark.slow

PAGES = 7
WITHOUT = {"lancedb": "raise ModuleNotFoundError(\"No module named 'lancedb'\", name='lancedb')\n"}


class Notebook:
    """A folder with a database and an index, and a graph to index."""

    def __init__(self, folder: Path, roam: Roam, url: str) -> None:
        self.folder = folder
        self.roam = roam
        keys = folder / "headgate.keys"
        keys.write_text(key_entries("k1")[0], encoding="ascii")
        keys.chmod(0o600)
        self.environment = {
            "HEADGATE_SYSTEMS": "notes-index",
            "HEADGATE_DATABASE": "sqlite:///notes.db",
            "HEADGATE_KEY_FILE": str(keys),
            "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
            "HEADGATE_ROAM_URL": url,
            "HEADGATE_ROAM_REQUESTS_PER_MIN": "10000",
            "HEADGATE_NOTES_BATCH": "3",
            # What a worker logs is not read here, and must not fill its pipe.
            "HEADGATE_LOG_LEVEL": "error",
        }

    def connect(self, user: str = "ann") -> None:
        """Connect the graph, as its owner does."""
        add = ("connection", "add", "roam", "--user", user, "--account", "graph-1")
        added = run_here(self.environment, self.folder, *add, stdin=self.roam.token() + "\n")
        assert added.code == 0, added.stderr

    def work(self, **changed: str) -> AbstractContextManager[processes.Process]:
        """A worker, killed at the end of the block."""
        environment = {**self.environment, **changed}
        return processes.started("headgate", "worker", environment=environment, folder=self.folder)

    def run(self, *arguments: str, **changed: str) -> processes.Ended:
        """Run `headgate notes …` to its end."""
        return run_here({**self.environment, **changed}, self.folder, "notes", *arguments)

    def anns(self, *arguments: str, **changed: str) -> processes.Ended:
        """The same, of the user who has connected the graph."""
        return self.run(*arguments, "--user", "ann", **changed)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a command of that user tells as JSON."""
        ended = self.anns(*arguments, "--json")
        assert ended.code == code, ended.stdout + ended.stderr
        return json.loads(ended.stdout)


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    """A graph of three batches that is connected, and nobody works yet."""
    roam = Roam(SystemClock(), pages=PAGES, limit=10_000, cold_requests=0)
    with serving(roam) as url:
        made = Notebook(tmp_path, roam, url)
        made.connect()
        yield made


def lines_of(ended: processes.Ended) -> list[str]:
    assert ended.code == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()


# ---- runs --------------------------------------------------------------------------------------


def test_a_graph_is_indexed_followed_and_searched(notebook: Notebook) -> None:
    notebook.roam.add_page(
        NewPage(title="Bread", blocks=[NewBlock("Knead the dough,\nand let it rise.")])
    )
    with notebook.work():
        # What a run would do, without one
        dry = lines_of(notebook.anns("start", "--dry-run"))
        assert dry[0].endswith("✔ success · since · dry run")
        assert dry[2] == f"{PAGES + 1} pages in the graph: {PAGES + 1} to read or remove"

        # A run that is watched: progress for people, and the result as data
        watched = notebook.anns("start", "--watch")
        head, message, summary, mark = lines_of(watched)
        assert head.endswith("✔ success · since") and message == "Done."
        assert summary == f"{PAGES + 1} pages in the graph: {PAGES + 1} indexed"
        assert mark.startswith("what was edited up to ") and mark.endswith(" UTC is indexed")
        assert f"{PAGES + 1}/{PAGES + 1} · 100 %  Done." in watched.stderr

        # The next finds only what changed
        page = next(iter(notebook.roam.graph().heads()))
        notebook.roam.edit_page(Edit(page=page.uid, append="A new thought."))
        told = notebook.json("start", "--wait")
        assert (told["status"], told["summary"]["updated"]) == ("success", 1)
        assert notebook.json("status") == told

    # What is indexed is found without a worker, in a line for each
    [found] = lines_of(notebook.anns("search", "knead the dough", "--limit", "1"))
    score, title, page_uid, block_uid, snippet = found.split("\t")
    assert (title, snippet) == ("Bread", "Knead the dough, and let it rise.")
    assert 0.5 < float(score) <= 1 and page_uid != block_uid
    [hit] = notebook.json("search", "knead the dough", "--limit", "1")["data"]
    assert (hit["page"], hit["block_uid"]) == ({"uid": page_uid, "title": "Bread"}, block_uid)


def test_a_run_is_cancelled_and_resumed(notebook: Notebook) -> None:
    assert "idle: no run was started yet" in notebook.anns("status").stderr
    assert notebook.json("status")["status"] == "idle"
    refused = notebook.anns("cancel")
    assert (refused.code, "no run is active" in refused.stderr) == (1, True)
    slow = Fault(kind=FaultKind.SLOW, path="/*/pull-many", seconds=60, times=1)
    pulls = notebook.roam.requests

    with notebook.work():
        # Given a run that waits for the pages of its first batch
        notebook.roam.faults.add(slow)
        started = notebook.anns("start")
        assert "next: headgate notes status --user ann --watch" in started.stderr
        assert notebook.anns("status", "--wait", "--timeout", "0").code == 8
        busy = notebook.anns("start")
        assert (busy.code, "already has an active job" in busy.stderr) == (1, True)
        while not pulls.count(method="POST", path="/peer-7/api/graph/{graph}/pull-many"):
            assert notebook.json("status")["finished_at"] is None

        # When it is cancelled, then it says how to go on
        cancelled = notebook.anns("cancel", "--wait")
        assert lines_of(cancelled)[0].endswith("⊘ cancelled · since")
        assert "next: headgate notes resume --user ann" in cancelled.stderr
        assert notebook.anns("status", "--wait").code == 5

        # And a resumed run does the rest
        notebook.roam.faults.clear()
        resumed = notebook.json("resume", "--wait")
        assert (resumed["status"], resumed["summary"]["updated"]) == ("success", PAGES)
    nothing = notebook.anns("resume")
    assert (nothing.code, "there is nothing to continue" in nothing.stderr) == (1, True)


def test_a_run_that_fails_says_why_and_what_to_do(notebook: Notebook) -> None:
    notebook.roam.encrypt()
    with notebook.work():
        failed = notebook.anns("start", "--wait")
    assert failed.code == 5
    assert "✘ failed · since" in failed.stdout
    assert "the graph is encrypted" in failed.stdout
    assert "next: headgate notes start --user ann" in failed.stderr


def test_runs_are_listed_whole_in_a_pipe_and_on_a_narrow_terminal(notebook: Notebook) -> None:
    assert "no runs" in notebook.run("runs").stderr
    ids: list[str] = []
    for _ in range(3):
        ids.insert(0, notebook.json("start")["run_id"])
        assert notebook.anns("cancel").code == 0

    listed = notebook.run("runs", "--limit", "2")
    rows = [line.split("\t") for line in lines_of(listed)]
    assert [row[:4] for row in rows] == [[run, "cancelled", "since", "ann"] for run in ids[:2]]
    assert {len(row) for row in rows} == {7}
    assert f"there are more: --before {ids[1]}" in listed.stderr
    [last] = lines_of(notebook.run("runs", "--before", ids[1]))
    assert last.startswith(ids[2])
    page = notebook.json("runs", "--limit", "2")
    assert ([each["run_id"] for each in page["data"]], page["next_cursor"]) == (ids[:2], ids[1])

    code, screen = on_terminal(notebook.environment, notebook.folder, "notes", "runs")
    assert code == 0
    for run in ids:
        assert f"{run}  ⊘ cancelled  since  ann " in screen


# ---- what is deleted, and what is refused ------------------------------------------------------


def test_what_is_indexed_is_deleted_only_after_its_number_was_confirmed(notebook: Notebook) -> None:
    with notebook.work():
        # Nothing is there yet, so nobody is asked
        assert notebook.anns("start", "--clear", "--wait").code == 0
        refused = notebook.anns("start", "--clear")
        assert refused.code == 3
        assert f"deletes the {PAGES} pages" in refused.stderr
        assert f"--confirm-pages {PAGES}" in refused.stderr
        told = notebook.json("start", "--clear", "--confirm-pages", str(PAGES), "--wait")
        assert (told["status"], told["summary"]["updated"]) == ("success", PAGES)
    error = notebook.json("start", "--recreate-collection", code=3)["error"]
    assert error["type"] == "ConfirmationMissing"


def test_what_is_wrong_is_named(notebook: Notebook) -> None:
    for arguments, named in (
        (["start", "--since", "yesterday"], "since: 'yesterday' is not a time"),
        (["start", "--since", "²"], "since: '²' is not a time"),
        (["start", "--since", "9" * 20], "since: must be milliseconds"),
        (["start", "--since", "1705000000000", "--mode", "full"], "since: only mode since"),
        (["start", "--mode", "limit"], "limit: "),
        (["start", "--mode", "history"], "mode: "),
        (["search", " "], "q: "),
    ):
        ended = notebook.anns(*arguments)
        assert (ended.code, ended.stdout) == (2, "")
        assert named in ended.stderr and "Traceback" not in ended.stderr


def test_who_has_not_connected_a_graph_is_told_how(notebook: Notebook) -> None:
    for arguments in (["start"], ["search", "bread"], ["resume"]):
        ended = notebook.run(*arguments, "--user", "bob b")
        assert ended.code == 1
        assert "has not connected Roam Research yet" in ended.stderr
        assert "headgate connection add roam --user 'bob b' --account" in ended.stderr
    nothing = notebook.anns("search", "bread")
    assert (nothing.code, nothing.stdout) == (0, "")
    assert "nothing is indexed yet; headgate notes start --user ann" in nothing.stderr


def test_a_system_that_is_not_started_says_why(notebook: Notebook) -> None:
    for arguments, changed, named in (
        (["start"], {"HEADGATE_SYSTEMS": "price-history"}, "notes-index is not started"),
        (["search", "bread"], {"HEADGATE_SYSTEMS": "price-history"}, "notes-index is not started"),
        (["status"], {"HEADGATE_NOTES_BATCH": "0"}, "HEADGATE_NOTES_BATCH"),
        (["runs"], {"HEADGATE_NOTES_CLEAR_BY": "everybody"}, "HEADGATE_NOTES_CLEAR_BY"),
    ):
        ended = notebook.anns(*arguments, **changed)
        assert (ended.code, ended.stdout) == (2, "")
        assert named in ended.stderr and "Traceback" not in ended.stderr


def test_without_the_extra_it_is_told_what_to_install(notebook: Notebook, tmp_path: Path) -> None:
    without = tmp_path / "without"
    without.mkdir()
    for package, source in WITHOUT.items():
        (without / f"{package}.py").write_text(source, encoding="utf-8")
    changed = {"PYTHONPATH": str(without)}
    said = "vectors: lancedb is missing: install headgate[vectors]"

    for arguments in (["search", "bread"], ["start", "--clear"]):
        ended = processes.run(
            *("headgate", "notes", *arguments, "--user", "ann"),
            environment={**notebook.environment, **changed},
            folder=tmp_path,
        )
        assert (ended.code, said in ended.stderr) == (2, True)
    with notebook.work(**changed):
        failed = notebook.anns("start", "--wait")
    assert (failed.code, said in failed.stdout) == (5, True)


@pytest.mark.thorough
def test_an_application_may_bring_another_embedder_which_needs_another_index(
    notebook: Notebook,
) -> None:
    notebook.roam.add_page(NewPage(title="Bread", blocks=[NewBlock("Knead the dough.")]))
    with notebook.work():
        assert notebook.anns("start", "--wait").code == 0
    own = {"HEADGATE_APP": "examples.own_embedder:app", "PYTHONPATH": str(processes.ROOT)}
    with notebook.work(**own):
        failed = notebook.anns("start", "--wait", **own)
        assert failed.code == 5
        assert "was built with the embedder wordllama/l2_supercat" in failed.stdout
        again = ("start", "--recreate-collection", "--confirm-pages", str(PAGES + 1), "--wait")
        lines_of(notebook.anns(*again, **own))
    [found] = lines_of(notebook.anns("search", "the dough", "--limit", "1", **own))
    assert found.endswith("Knead the dough.")
