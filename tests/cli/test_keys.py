"""`headgate keys …`: keys are made, put first, and rotated to; nothing is told that need not be."""

import json
import stat
from pathlib import Path

import pytest

from headgate.base.clock import ManualClock
from headgate.base.secret import Secret
from headgate.secrets.keys import KeyRing
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests import stores
from tests.cli.conftest import Cli
from tests.connecting import fill_connections, key_entries, vault


@pytest.fixture
def headgate(without_app: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs the command line without keys."""
    for name in ("HEADGATE_KEYS", "HEADGATE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    return without_app


def test_a_new_key_is_printed_and_is_good(headgate: Cli) -> None:
    result = headgate("keys", "new")

    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1
    assert KeyRing.parse(Secret(result.stdout)).newest.startswith("k20")
    assert "HEADGATE_KEYS" in result.stderr
    # What goes to the messages is not the key.
    assert result.stdout.strip() not in result.stderr


def test_a_new_key_as_json_by_the_name_it_was_given(headgate: Cli) -> None:
    told = headgate.json("keys", "new", "--id", "mine")

    assert told["id"] == "mine"
    assert KeyRing.parse(Secret(told["entry"])).newest == "mine"


def test_a_name_that_is_no_good_is_refused(headgate: Cli) -> None:
    result = headgate("keys", "new", "--id", "not a name", "--json")

    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["type"] == "InvalidInput"


@pytest.mark.security(32)
def test_a_key_file_is_made_for_its_owner_and_the_newest_comes_first(
    headgate: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "keys"

    first = headgate("keys", "new", "--file", "keys", "--id", "one")
    second = headgate("keys", "new", "--file", "keys", "--id", "two", "--json")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert KeyRing.read(path).ids == ("two", "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(second.stdout) == {"id": "two", "file": "keys"}
    # The key is in the file, and in no output.
    for entry in path.read_text(encoding="ascii").split():
        assert entry.partition(":")[2] not in first.output + second.output


def test_a_name_that_is_taken_or_a_file_that_is_open_to_others_is_refused(
    headgate: Cli, tmp_path: Path
) -> None:
    headgate("keys", "new", "--file", "keys", "--id", "one")
    before = (tmp_path / "keys").read_bytes()

    again = headgate("keys", "new", "--file", "keys", "--id", "one")
    assert (again.exit_code, (tmp_path / "keys").read_bytes()) == (2, before)
    (tmp_path / "keys").chmod(0o644)
    open_to_others = headgate("keys", "new", "--file", "keys")
    assert open_to_others.exit_code == 2
    assert "chmod 600" in open_to_others.stderr
    nowhere = headgate("keys", "new", "--file", "no/such/folder/keys")
    assert nowhere.exit_code == 2
    assert "cannot be written" in nowhere.stderr


def filled(folder: Path, count: int) -> str:
    """A database with connections under the key k1."""

    async def fill() -> None:
        await stores.migrated_sqlite(folder / "jobs.db")
        database = SqliteDatabase(folder / "jobs.db", ManualClock(stores.START))
        await database.open()
        try:
            await fill_connections(SqlConnections(database), count, vault("k1"))
        finally:
            await database.close()

    stores.run_async(fill())
    return f"sqlite:///{folder}/jobs.db"


def test_rotating_puts_everything_under_the_newest_key(
    headgate: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = filled(tmp_path, 5)
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(key_entries("k2", "k1")))

    result = headgate("keys", "rotate", "-d", database)
    assert (result.exit_code, result.stdout) == (0, "5 encrypted with the key k2; 0 left\n")
    again = headgate("keys", "rotate", "-d", database, "--json")
    assert json.loads(again.stdout) == {
        "key": "k2",
        "resealed": 0,
        "unreadable": 0,
        "left": 0,
        "by_key": {"k2": 5},
    }


def test_what_cannot_be_read_is_told_and_fails_the_command(
    headgate: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = filled(tmp_path, 2)
    monkeypatch.setenv("HEADGATE_KEYS", key_entries("k2")[0])

    result = headgate("keys", "rotate", "-d", database)

    assert result.exit_code == 1
    assert "2 left" in result.stdout
    assert "cannot be decrypted with the keys that are set" in result.stderr


@pytest.mark.parametrize("keys", [None, "", "k1:AAAA"])
def test_without_good_keys_nothing_is_rotated(
    headgate: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str | None
) -> None:
    database = filled(tmp_path, 1)
    if keys is not None:
        monkeypatch.setenv("HEADGATE_KEYS", keys)

    result = headgate("keys", "rotate", "-d", database)

    assert result.exit_code == 2
    assert "headgate keys new" in result.stderr


def test_keys_and_a_key_file_at_once_are_refused(
    headgate: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = filled(tmp_path, 1)
    monkeypatch.setenv("HEADGATE_KEYS", key_entries("k1")[0])
    monkeypatch.setenv("HEADGATE_KEY_FILE", "keys")

    result = headgate("keys", "rotate", "-d", database)

    assert result.exit_code == 2
    assert "leave one of the two out" in result.stderr
