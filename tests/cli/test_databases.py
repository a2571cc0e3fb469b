"""Which database a command reads: it is named, and none is made by looking."""

import shutil
from pathlib import Path

from headgate.toolkit.commands.loading import CONFIG
from tests.cli.conftest import ONE_SYNC, Cli

APP = ONE_SYNC.replace("jobs.db", "away/jobs.db")
DATABASE = None
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


def test_looking_makes_no_database(headgate: Cli, tmp_path: Path) -> None:
    for command in (*LISTS, *OTHERS):
        told = headgate(*command.split())

        assert told.exit_code == CONFIG, (command, told.output)
        assert told.stdout == ""
        assert f"there is no database at sqlite:///{tmp_path}/away/jobs.db" in told.stderr
        assert not (tmp_path / "away").exists(), command


def test_a_list_names_its_database(headgate: Cli, tmp_path: Path, store_file: Path) -> None:
    (tmp_path / "away").mkdir()
    shutil.copyfile(store_file, tmp_path / "away" / "jobs.db")
    for command in LISTS:
        told = headgate(*command.split())

        assert told.exit_code == 0, (command, told.output)
        assert told.stderr.splitlines()[0] == f"database: sqlite:///{tmp_path}/away/jobs.db"
        assert "database:" not in headgate(*command.split(), "--json").output, command


def test_what_begins_something_makes_one(headgate: Cli, tmp_path: Path) -> None:
    assert headgate("job", "submit", "sync", "--user", "ada").exit_code == 0
    assert (tmp_path / "away" / "jobs.db").exists()
