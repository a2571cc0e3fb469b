"""`headgate items …` for an application of two collections that no system of ours knows."""

import importlib
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from headgate import App
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock
from headgate.cli.main import cli
from headgate.connectors.keys import KeyRing
from headgate.model.api_key import Role
from headgate.toolkit.commands.loading import USAGE
from headgate.web.server import build
from tests.collecting import COMMENTS, connect, put, stuck
from tests.connecting import key_entries

APP = """
import headgate
from tests.collecting import notes_sync

app = headgate.App("sqlite:///items.db", syncs=[notes_sync()])
"""

Run = Callable[..., Result]
Use = Callable[[Callable[[App], Awaitable[Any]]], Any]


@pytest.fixture
def module(tmp_path: Path, store_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder with an application in it; the module's name."""
    name = f"notes_app_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(APP, encoding="utf-8")
    shutil.copyfile(store_file, tmp_path / "items.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(key_entries("k1")))
    monkeypatch.setenv("HEADGATE_APP", f"{name}:app")
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def headgate(module: str) -> Run:
    """Runs `headgate items …`; each call is a process of its own, as far as the app can tell."""
    runner = CliRunner()

    def run(*arguments: str) -> Result:
        sys.modules.pop(module, None)
        return runner.invoke(cli, ["items", *arguments])

    return run


@pytest.fixture
def in_app(module: str) -> Use:
    """What a test does with the application, opened."""

    def use(do: Callable[[App], Awaitable[Any]]) -> Any:
        # The last command logged to a stream that is closed by now.
        log.configure(SystemClock(), json=True, level="critical")
        sys.modules.pop(module, None)
        app: App = importlib.import_module(module).app

        async def opened() -> Any:
            async with app:
                return await do(app)

        return event_loop.run(opened())

    return use


async def a_few(app: App) -> str:
    """One that is stuck and two in line, of two collections; the connection's id."""
    connection = (await connect(app)).id
    await stuck(app, "a", connection_id=connection)
    await put(app, "b", COMMENTS, connection_id=connection)
    await put(app, "c", connection_id=connection)
    return connection


def test_the_numbers_are_told_of_every_collection_or_of_one(headgate: Run, in_app: Use) -> None:
    in_app(a_few)

    both = json.loads(headgate("stats", "--user", "ada", "--json").stdout)["collections"]
    assert [each["name"] for each in both] == ["notes.attachments", "notes.comments"]
    assert [(each["stuck"], each["states"]["pending"]) for each in both] == [(1, 1), (0, 1)]
    one = headgate("stats", "--collection", "notes.comments")
    assert "Comments (notes.comments)" in one.stdout
    assert "attachments" not in one.stdout


def test_a_list_is_of_all_or_of_one_collection(headgate: Run, in_app: Use) -> None:
    in_app(a_few)

    def listed(*more: str) -> list[str]:
        return [line.split("\t")[0] for line in headgate("list", *more).stdout.splitlines()]

    assert listed() == ["a", "b", "c"]
    assert listed("--collection", "notes.comments") == ["b"]
    assert listed("--collection", "notes.attachments", "--state", "failed") == ["a"]
    first = headgate("list", "--limit", "2")
    assert first.stdout.count("\n") == 2 and "there are more: --after b" in first.stderr
    assert listed("--after", "b") == ["c"]


@pytest.mark.parametrize("command", ["list", "stats"])
def test_an_unknown_collection_is_told_with_those_that_there_are(
    headgate: Run, command: str
) -> None:
    told = headgate(command, "--collection", "nowhere")

    assert told.exit_code == USAGE
    assert "'nowhere' is not declared; there are: notes.attachments, notes.comments" in told.stderr


def test_a_reset_asks_for_the_job_that_fetches_the_collection(headgate: Run, in_app: Use) -> None:
    connection = in_app(a_few)

    assert headgate("reset", "b").stdout == "b is pending again\n"
    assert in_app(lambda app: app.jobs.list()) == []
    assert headgate("reset", "a").stdout == "a is pending again\n"
    [job] = in_app(lambda app: app.jobs.list())
    assert (job.sync, job.connection_id) == ("notes", connection)


def test_the_command_line_tells_items_as_the_api_does(headgate: Run, in_app: Use) -> None:
    in_app(a_few)

    def asked(method: str, path: str) -> Any:
        async def ask(app: App) -> Any:
            _, key = await app.api_keys.make("for a test", role=Role.ADMIN)
            async with httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=build(app, keys=KeyRing.for_demo())),
                base_url="http://headgate.test",
                headers={"Authorization": f"Bearer {key.reveal()}"},
            ) as client:
                return (await client.request(method, path)).json()

        return in_app(ask)

    some = ("--collection", "notes.attachments", "--state", "failed", "--user", "ada")
    for options, query in (
        ((), ""),
        (("--limit", "2"), "?limit=2"),
        (some, "?collection=notes.attachments&state=failed&user_id=ada"),
    ):
        told = json.loads(headgate("list", *options, "--json").stdout)
        assert told == asked("GET", f"/v1/items{query}")
    reset = json.loads(headgate("reset", "a", "--json").stdout)
    assert reset == asked("GET", "/v1/items/a")
