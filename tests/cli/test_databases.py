"""Which database a command reads: it is named, and none is made by looking."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.cli.main import cli
from headgate.toolkit.commands.loading import CONFIG

APP = """
import headgate

class Source:
    name = "fake"
    async def read(self, ctx):
        return headgate.Chunk()

app = headgate.App("sqlite:///away/jobs.db", syncs=[headgate.Sync(name="sync", source=Source())])
"""
LISTS = [
    "job list",
    "backfill list",
    "items list",
    "connection list --user ada",
    "user list",
    "api-key list",
    "schedule list",
    "outbox list",
    "notify list",
    "records list sync",
]
OTHERS = [
    "job show job_1",
    "job events job_1",
    "job pause job_1",
    "backfill status job_1",
    "budget",
    "user show ada",
    "user plan ada",
    "schedule history nightly",
    "outbox show d",
    "keys rotate",
    "records show sync key",
    "records export sync",
]

Run = Callable[[str], Result]


@pytest.fixture
def headgate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in a folder with an application and no database."""
    module = f"cli_app_{abs(hash(tmp_path))}"
    (tmp_path / f"{module}.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_APP", f"{module}:app")
    return lambda arguments: CliRunner().invoke(cli, arguments.split())


@pytest.mark.parametrize("command", [*LISTS, *OTHERS])
def test_looking_makes_no_database(headgate: Run, tmp_path: Path, command: str) -> None:
    told = headgate(command)

    assert told.exit_code == CONFIG, told.output
    assert told.stdout == ""
    assert f"there is no database at sqlite:///{tmp_path}/away/jobs.db" in told.stderr
    assert not (tmp_path / "away").exists()


@pytest.mark.parametrize("command", LISTS)
def test_a_list_names_its_database(
    headgate: Run, tmp_path: Path, store_file: Path, command: str
) -> None:
    (tmp_path / "away").mkdir()
    shutil.copyfile(store_file, tmp_path / "away" / "jobs.db")

    told = headgate(command)

    assert told.exit_code == 0, told.output
    assert told.stderr.splitlines()[0] == f"database: sqlite:///{tmp_path}/away/jobs.db"
    assert "database:" not in headgate(f"{command} --json").output


def test_what_begins_something_makes_one(headgate: Run, tmp_path: Path) -> None:
    assert headgate("job submit sync --user ada").exit_code == 0
    assert (tmp_path / "away" / "jobs.db").exists()
