"""The example of a connector, as its how-to runs it: a sandbox, a key, an account, an import."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADGATE = str(Path(sys.executable).parent / "headgate")


@contextmanager
def sandbox(name: str, *more: str) -> Iterator[str]:
    """A sandbox on a free port; gives its address."""
    command = [sys.executable, "-u", HEADGATE, "sandbox", name, "--port", "0", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            process.terminate()


def test_the_example_connects_an_account_and_imports_it(tmp_path: Path) -> None:
    # Given the sandbox, and a fresh key
    made = subprocess.run([HEADGATE, "keys", "new", "--json"], capture_output=True, check=True)
    key = json.loads(made.stdout)["entry"]
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
        command = [sys.executable, "-m", "examples.strava_activities"]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )

        # Then everything is there, and both sides have counted alike
        assert "Done. 250 activities" in ran.stdout
        told = subprocess.run(
            [HEADGATE, "budget", "strava", "--json"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=True,
        )
        windows = json.loads(told.stdout)["data"][0]["windows"]
        [day] = [window for window in windows if window["limit"] == "read day"]
        assert (day["used"], day["theirs"]) == (3, 3)

    # And the database holds no token in the clear
    stored = b"".join(each.read_bytes() for each in tmp_path.glob("strava.db*"))
    assert b"conn_" in stored
    assert key.partition(":")[2].encode() not in stored


def test_without_a_key_the_example_says_how_to_make_one(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("HEADGATE_KEYS", None)
    command = [sys.executable, "-m", "examples.strava_activities"]

    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert ran.returncode != 0
    assert "headgate keys new" in ran.stderr
