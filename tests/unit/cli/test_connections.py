"""`headgate connection …`, `user …` and `backfill link`: what people need around an import."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.base.clock import SystemClock
from headgate.base.secret import Secret
from headgate.cli.main import cli
from headgate.connectors.keys import KeyRing
from headgate.toolkit.links import Links
from tests.connecting import key_entries

APP = """
import headgate
from headgate.connectors.strava import strava

class Activities(headgate.ApiSource):
    async def read(self, ctx):
        return headgate.Chunk()

class Notes:
    name = "notes"
    async def read(self, ctx):
        return headgate.Chunk()

api = strava(client_id="1", client_secret=headgate.Secret("hush"))
app = headgate.App(
    "sqlite:///jobs.db",
    syncs=[
        headgate.Sync(name="activities", source=Activities(**api)),
        headgate.Sync(name="notes", source=Notes()),
    ],
)
"""

Run = Callable[..., Result]
KEYS = ",".join(key_entries("k1"))


@pytest.fixture
def headgate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in a folder with an application of its own."""
    module = f"cli_app_{abs(hash(tmp_path))}"
    (tmp_path / f"{module}.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_APP", f"{module}:app")
    monkeypatch.setenv("HEADGATE_KEYS", KEYS)
    monkeypatch.setenv("HEADGATE_PUBLIC_URL", "https://sync.example/")
    runner = CliRunner()
    return lambda *arguments: runner.invoke(cli, list(arguments))


def links() -> Links:
    return Links(KeyRing.parse(Secret(KEYS)), SystemClock())


def test_a_link_to_connect_is_one_that_the_server_opens(headgate: Run) -> None:
    told = json.loads(headgate("connection", "link", "strava", "--user", "ada", "--json").stdout)

    path = told["url"].removeprefix("https://sync.example")
    opened = links().open_connect(path.removeprefix("/connect/"))
    assert (opened.source, opened.user_id, opened.connection_id) == ("strava", "ada", None)
    shown = headgate("connection", "link", "strava", "--user", "ada")
    assert shown.stdout.startswith("https://sync.example/connect/")
    assert shown.stdout.count("\n") == 1
    assert "next: open it" in shown.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("notes",), "source: 'notes' is not one that users connect to; there are: strava"),
        (("strava", "--again", "conn_none"), "there is no connection 'conn_none'"),
    ],
)
def test_what_cannot_be_connected_gets_no_link(
    headgate: Run, given: tuple[str, ...], said: str
) -> None:
    result = headgate("connection", "link", *given, "--user", "ada")

    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert result.stdout == ""


def test_what_is_not_there_is_said_so(headgate: Run) -> None:
    assert "no connections" in headgate("connection", "list", "--user", "ada").stderr
    assert json.loads(headgate("connection", "list", "--user", "ada", "--json").stdout) == {
        "data": []
    }
    for command in ("pause", "resume", "remove"):
        result = headgate("connection", command, "conn_none", "--json")
        assert result.exit_code == 1
        assert "there is no connection" in json.loads(result.stdout)["error"]["message"]


def test_a_plan_is_given_and_shown(headgate: Run) -> None:
    assert headgate("user", "plan", "ada").stdout == "ada: no plan\n"
    headgate("user", "plan", "ada", "premium")
    assert json.loads(headgate("user", "plan", "ada", "--json").stdout) == {
        "user_id": "ada",
        "plan": "premium",
    }
    refused = headgate("user", "plan", "ada", "x" * 51)
    assert (refused.exit_code, "plan: must be 1 to 50" in refused.stderr) == (2, True)


def test_a_link_to_the_progress_page_is_one_that_the_server_opens(headgate: Run) -> None:
    asked = ("--from", "2025-01-01", "--to", "2025-01-10", "--json")
    job = json.loads(headgate("backfill", "start", "notes", "--user", "ada", *asked).stdout)

    told = json.loads(headgate("backfill", "link", job["id"], "--json").stdout)

    opened = links().open_progress(told["url"].removeprefix("https://sync.example/p/"))
    assert (opened.job_id, opened.user_id) == (job["id"], "ada")
    assert headgate("backfill", "link", job["id"], "--user", "eve").exit_code == 1
