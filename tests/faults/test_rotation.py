"""Keys rotated by real processes that are killed in the middle: the next one does what is left."""

import json
import os
import signal
from pathlib import Path

import pytest

from headgate.backends.sql import open_database
from headgate.base.clock import ManualClock
from headgate.store.sql.connections.store import SqlConnections
from tests import processes, stores
from tests.connecting import fill_connections, key_entries, opened_tokens, vault


def run(folder: Path, address: str, *command: str, **more: str) -> processes.Ended:
    # The keys in a file that only we can read: an environment can be read by others.
    keys = str(folder / "keys")
    # Without systems: this database has the engine's tables alone.
    own = {"HEADGATE_DATABASE": address, "HEADGATE_KEY_FILE": keys, "HEADGATE_SYSTEMS": ""}
    return processes.run(*command, environment={**os.environ, **own, **more})


@processes.once_on("sqlite")
@pytest.mark.fault(38)
@pytest.mark.security(13)
async def test_a_rotation_that_is_killed_is_finished_by_the_next(
    tmp_path: Path, address: str
) -> None:
    # Given connections under an old key
    async with stores.in_use(database := open_database(address, ManualClock(stores.START))):
        store = SqlConnections(database)
        ids = await fill_connections(store, 20, vault("k1"))
        path = tmp_path / "keys"
        path.write_text("\n".join(key_entries("k2", "k1")), encoding="ascii")
        path.chmod(0o600)

        # When a rotation is killed after its second batch, and another after its first
        for batches, done in (("2", 6), ("1", 9)):
            killed = run(tmp_path, address, "tests.faults.rotator", KILL_AFTER=batches)
            assert killed.code == -signal.SIGKILL, killed.stderr
            assert (await store.count_by_key())["k2"] == done

        # Then everything can be read in between
        for each in ids:
            assert await opened_tokens(store, each, vault("k2", "k1")) == expected(each)

        # And the command does the rest
        finished = run(tmp_path, address, "headgate", "keys", "rotate", "--json")
        assert finished.code == 0, finished.stderr
        told = {"key": "k2", "resealed": 11, "unreadable": 0, "left": 0, "by_key": {"k2": 20}}
        assert json.loads(finished.stdout) == told
        for each in ids:
            assert await opened_tokens(store, each, vault("k2")) == expected(each)


def expected(connection_id: str) -> tuple[str, str]:
    return f"access of {connection_id}", f"refresh of {connection_id}"
