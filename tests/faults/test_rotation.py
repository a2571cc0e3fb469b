"""Keys rotated by real processes that are killed in the middle: the next one does what is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.base.clock import ManualClock
from headgate.store.sql.account_store import SqlAccounts
from headgate.store.sql.database import Database
from headgate.store.sql.postgres import PostgresDatabase
from headgate.store.sql.sqlite import SqliteDatabase
from tests import servers, stores
from tests.connecting import fill_connections, key_entries, opened_tokens, vault
from tests.faults.harness import ROOT

WAIT_S_MAX = 60


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database of the test's own."""
    if request.param == "sqlite":
        stores.run_async(stores.migrated_sqlite(tmp_path / "keys.db"))
        return f"sqlite:///{tmp_path}/keys.db"
    server: servers.PostgresServer = request.getfixturevalue("postgres_server")
    name = "rotation_" + "".join(letter if letter.isalnum() else "_" for letter in tmp_path.name)
    return stores.run_async(stores.migrated_postgres(server.url, name))


def open_address(address: str) -> Database:
    if address.startswith("sqlite"):
        return SqliteDatabase(Path(address.removeprefix("sqlite:///")), ManualClock(stores.START))
    return PostgresDatabase(address, ManualClock(stores.START))


def run(
    folder: Path, address: str, *command: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    # The keys in a file that only we can read: an environment can be read by others.
    keys = folder / "keys"
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={
            **os.environ,
            "HEADGATE_DATABASE": address,
            "HEADGATE_KEY_FILE": str(keys),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )


async def test_a_rotation_that_is_killed_is_finished_by_the_next(
    tmp_path: Path, address: str
) -> None:
    # Given connections under an old key
    database = open_address(address)
    await database.open()
    try:
        accounts = SqlAccounts(database)
        ids = await fill_connections(accounts, 20, vault("k1"))
        write_keys(tmp_path)

        # When a rotation is killed after its second batch, and another after its first
        for batches, done in (("2", 6), ("1", 9)):
            killed = run(tmp_path, address, "-m", "tests.faults.rotator", KILL_AFTER=batches)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            assert (await accounts.count_by_key())["k2"] == done

        # Then everything can be read in between
        for each in ids:
            assert await opened_tokens(accounts, each, vault("k2", "k1")) == expected(each)

        # And the command does the rest
        finished = run(tmp_path, address, "-m", "headgate", "keys", "rotate", "--json")
        assert finished.returncode == 0, finished.stderr
        assert json.loads(finished.stdout) == {
            "key": "k2",
            "resealed": 11,
            "unreadable": 0,
            "left": 0,
            "by_key": {"k2": 20},
        }
        for each in ids:
            assert await opened_tokens(accounts, each, vault("k2")) == expected(each)
    finally:
        await database.close()


def expected(connection_id: str) -> tuple[str, str]:
    return f"access of {connection_id}", f"refresh of {connection_id}"


def write_keys(folder: Path) -> None:
    path = folder / "keys"
    path.write_text("\n".join(key_entries("k2", "k1")), encoding="ascii")
    path.chmod(0o600)
