"""Real processes: several workers, one schedule, each user's job once."""

import json
import os
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headgate import App
from tests import stores
from tests.e2e.processes import headgate, started

APP = """
import os
import headgate

class Notes:
    name = "notes"

    async def read(self, ctx):
        return headgate.Chunk(records=[headgate.Record(ctx.user_id, {})])

app = headgate.App(
    os.environ["DATABASE"],
    syncs=[headgate.Sync(name="notes", source=Notes())],
    schedules=[headgate.Schedule(name="fresh", sync="notes", fresh_within="24h", stagger="0s")],
    worker=headgate.WorkerSettings(lease_s=3.0),
)
"""
USERS = ("ada", "bob", "cleo", "dan", "eve")
#: Each look takes a process, and so a part of a second.
LOOKS_MAX = 300

Environment = dict[str, str]


@pytest.fixture
def environment(address: str, tmp_path: Path) -> Environment:
    """A folder with an application, on each database, and five users."""
    (tmp_path / "notes_app.py").write_text(APP, encoding="utf-8")

    async def come() -> None:
        async with App(address) as app:
            for name in USERS:
                await app.users.seen(name)

    stores.run_async(come())
    return {**os.environ, "DATABASE": address, "HEADGATE_APP": "notes_app:app"}


def succeeded(environment: Environment, folder: Path, count: int) -> Counter[str]:
    """The users of all jobs, once so many have succeeded."""
    for _ in range(LOOKS_MAX):
        told = headgate(environment, folder, "job", "list", "--json")
        jobs: list[dict[str, Any]] = json.loads(told)["data"]
        if sum(job["state"] == "success" for job in jobs) >= count:
            return Counter(job["user_id"] for job in jobs)
    raise AssertionError(f"no {count} jobs succeed")


@pytest.mark.thorough
@pytest.mark.fault(21, 23)
def test_of_three_workers_one_fires_and_a_killed_one_is_not_missed(
    environment: Environment, tmp_path: Path
) -> None:
    with ExitStack() as running:
        workers = [
            running.enter_context(started(environment, tmp_path, "worker")) for _ in range(3)
        ]
        assert succeeded(environment, tmp_path, 5) == dict.fromkeys(USERS, 1)

        workers[0].send_signal(signal.SIGKILL)
        headgate(environment, tmp_path, "schedule", "run", "fresh")

        assert succeeded(environment, tmp_path, 10) == dict.fromkeys(USERS, 2)
        shown = json.loads(headgate(environment, tmp_path, "schedule", "show", "fresh", "--json"))
        assert [tick["kind"] for tick in shown["ticks"]] == ["manual"]
        history = json.loads(
            headgate(environment, tmp_path, "schedule", "history", "fresh", "--json")
        )
        # The test may run over midnight.
        days = [day for day in history["days"] if day["ticks"]]
        assert sum(day["ticks"] for day in days) == 2
        assert sum(day["succeeded"] for day in days) == 10
        for each in workers[1:]:
            each.send_signal(signal.SIGTERM)
            assert each.wait() == 0
