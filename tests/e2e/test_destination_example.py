"""The example of a destination, as its how-to runs it: each order arrives once."""

import os
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.processes import ROOT

pytestmark = pytest.mark.thorough

EXAMPLE = "examples.order_delivery"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A warehouse that listens, and where the example finds it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "WAREHOUSE_PORT": str(port),
        "WAREHOUSE_URL": f"http://127.0.0.1:{port}",
        "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
    }
    with processes.started(
        "examples.warehouse", environment=environment, folder=tmp_path
    ) as process:
        for line in process.stderr:
            if "running on" in line:
                break
        yield environment


def received(folder: Path) -> list[str]:
    """The keys that the warehouse has."""
    with sqlite3.connect(folder / "warehouse.db") as db:
        return sorted(key for (key,) in db.execute("SELECT key FROM received"))


def test_every_order_arrives_once_however_often_it_is_sent(
    environment: dict[str, str], tmp_path: Path
) -> None:
    orders = sorted(f"order-{number}" for number in range(1, 11))

    for _ in range(2):
        ran = processes.run(EXAMPLE, environment=environment, folder=tmp_path)

        assert "Done. 10 sent, 0 refused." in ran.stdout, ran.stdout + ran.stderr
        assert received(tmp_path) == orders


def test_an_order_that_is_never_taken_is_refused_and_the_others_arrive(
    environment: dict[str, str], tmp_path: Path
) -> None:
    # Given a warehouse that knows the key of another order
    with sqlite3.connect(tmp_path / "warehouse.db") as db:
        db.execute("INSERT INTO received VALUES ('order-3', 'of another order', x'')")

    ran = processes.run(EXAMPLE, environment=environment, folder=tmp_path)

    assert "9 sent, 1 refused." in ran.stdout, ran.stdout + ran.stderr
    assert len(received(tmp_path)) == 10
