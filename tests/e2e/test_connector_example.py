"""The example of a connector, as its how-to runs it: a sandbox, a key, an account, an import."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import processes
from tests.e2e.processes import headgate
from tests.processes import ROOT

pytestmark = pytest.mark.thorough

EXAMPLE = "examples.strava_activities"


@contextmanager
def sandbox(name: str, *more: str) -> Iterator[str]:
    """A sandbox on a free port; gives its address."""
    with processes.started("headgate", "sandbox", name, "--port", "0", *more) as process:
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        yield found[0]


def test_the_example_connects_an_account_and_imports_it(tmp_path: Path) -> None:
    # Given the sandbox, and a fresh key
    key = json.loads(headgate(os.environ, tmp_path, "keys", "new", "--json"))["entry"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HEADGATE_KEYS": key,
        "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HEADGATE_APP": "examples.strava_activities:app",
    }
    with sandbox("strava", "--records", "250") as address:
        environment["STRAVA_URL"] = address

        # When the example runs
        ran = processes.run(EXAMPLE, environment=environment, folder=tmp_path)

        # Then everything is there, and both sides have counted alike
        assert "Done. 250 activities" in ran.stdout
        told = headgate(environment, tmp_path, "budget", "strava", "--json")
        windows = json.loads(told)["data"][0]["windows"]
        [day] = [window for window in windows if window["limit"] == "read day"]
        assert (day["used"], day["theirs"]) == (3, 3)

        # And when the same athlete connects again, it is the same connection
        again = processes.run(EXAMPLE, environment=environment, folder=tmp_path)
        assert again.stdout == ran.stdout
        listed = headgate(environment, tmp_path, "connection", "list", "--user", "ada", "--json")
        [connection] = json.loads(listed)["data"]
        assert connection["id"] in ran.stdout

    # And the database holds no token in the clear
    stored = b"".join(each.read_bytes() for each in tmp_path.glob("strava.db*"))
    assert b"conn_" in stored
    assert key.partition(":")[2].encode() not in stored


def test_without_a_key_the_example_says_how_to_make_one(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("HEADGATE_KEYS", None)

    ran = processes.run(EXAMPLE, environment=environment, folder=tmp_path)

    assert ran.code != 0
    assert "headgate keys new" in ran.stderr
