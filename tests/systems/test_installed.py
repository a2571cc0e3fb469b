"""A system of somebody else's, installed: `headgate` serves it, works for it, and has its command.

These are the commands of `docs/how-to/add-a-system.md`, in processes of their own.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from examples.shelf import Shelf
from headgate import SystemClock
from headgate_sandbox.serving import serving
from tests.connecting import key_entries
from tests.e2e.processes import headgate
from tests.e2e.processes import serving as served
from tests.systems.distributions import install_example

SOON_S = 30


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where the example is installed, and its service runs."""
    install_example(tmp_path)
    with serving(Shelf(SystemClock(), articles=12)) as url:
        yield {
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "HEADGATE_KEYS": ",".join(key_entries("k1")),
            "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
            "HEADGATE_SHELF_URL": url,
        }


def call(url: str, key: str | None = None, *, method: str = "GET") -> Any:
    """The answer to a request: JSON where it is JSON, else text."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with urlopen(Request(url, headers=headers, method=method), timeout=SOON_S) as answer:
        text = answer.read().decode()
        return json.loads(text) if "json" in answer.headers["content-type"] else text


def test_an_installed_system_runs_from_the_command_line_alone(
    environment: dict[str, str], tmp_path: Path
) -> None:
    def run(*arguments: str) -> str:
        return headgate(environment, tmp_path, *arguments)

    # Given a server and a worker that were told of it by nothing but its entry point
    with served(environment, tmp_path, "--with-worker") as (url, _):
        key = json.loads(run("api-key", "new", "phone", "--user", "ada", "--json"))["key"]

        # When its sync has run, and its API was used
        asked = ("job", "submit", "reading-list", "--user", "ada", "--connection", "ada")
        job = json.loads(run(*asked, "--json"))["id"]
        run("backfill", "status", job, "--watch", "--timeout", str(SOON_S))
        call(f"{url}/v1/reading-list/shelf-ada-7/read", key, method="PUT")
        made = call(f"{url}/v1/reading-list/shelf-ada-7/link", key, method="POST")

        # Then its page is there, and its command tells the same
        assert "article 7" in call(made["url"])
        told = json.loads(run("reading-list", "--user", "ada", "--json"))["data"]
        assert len(told) == 12
        assert [each["id"] for each in told if each["read_at"]] == ["shelf-ada-7"]
        assert "shelf-ada-7 success read Article 7" in run("reading-list", "--user", "ada")
        assert run("reading-list", "--user", "bob") == ""


def test_migrate_tells_of_its_tables_too(environment: dict[str, str], tmp_path: Path) -> None:
    told = headgate(environment, tmp_path, "migrate")

    assert "reading-list" in told and "0001" in told
