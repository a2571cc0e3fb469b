"""Real processes: a worker stopped by signals, the demo, and the example of the README."""

import json
import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests import processes, servers, stores
from tests.e2e.processes import headgate, started
from tests.processes import ROOT, Process, once_on

APP = """
import os
import headgate

class Source:
    name = "slow"

    async def read(self, ctx):
        print("reading", ctx.day, flush=True)
        await ctx.clock.sleep(float(os.environ["SECONDS"]))
        return headgate.Chunk(records=[headgate.Record(str(ctx.day), {})])

app = headgate.App(
    os.environ["DATABASE"],
    syncs=[headgate.Sync(name="slow", source=Source())],
    worker=headgate.WorkerSettings(grace_s=float(os.environ.get("GRACE", "20"))),
)
"""

Environment = dict[str, str]


@pytest.fixture
def environment(address: str, tmp_path: Path) -> Environment:
    """A folder with an application, on each database."""
    (tmp_path / "slow_app.py").write_text(APP, encoding="utf-8")
    environment = {**os.environ, "DATABASE": address, "HEADGATE_APP": "slow_app:app"}
    environment["SECONDS"] = "0"
    return environment


def worker(
    environment: Environment, folder: Path, *arguments: str
) -> AbstractContextManager[Process]:
    return started(environment, folder, "worker", *arguments)


def submit(environment: Environment, folder: Path, days: str = "2024-01-10") -> str:
    arguments = ("--mode", "history", "--from", "2024-01-01", "--to", days, "--json")
    told = headgate(environment, folder, "job", "submit", "slow", "--user", "u", *arguments)
    job_id: str = json.loads(told)["id"]
    return job_id


def show(environment: Environment, folder: Path, job_id: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(
        headgate(environment, folder, "job", "show", job_id, "--json")
    )
    return told


def work_off(environment: Environment, folder: Path, job_id: str) -> None:
    """Let a worker work until the job has succeeded, and stop it by Ctrl-C."""
    with worker(environment, folder) as process:
        while show(environment, folder, job_id)["state"] != "success":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def read_line(process: Process) -> str:
    return process.stdout.readline()


def test_an_empty_postgres_database_is_refused_until_it_is_migrated(
    postgres_url: str, tmp_path: Path
) -> None:
    address = stores.run_async(stores.create_postgres(postgres_url, "headgate_empty"))
    listing = ("job", "list", "-d", address)
    refused = processes.run("headgate", *listing, folder=tmp_path)
    assert (refused.code, "run `headgate migrate`" in refused.stderr) == (4, True)

    headgate(os.environ, tmp_path, "migrate", "-d", address)

    assert processes.run("headgate", *listing, folder=tmp_path).code == 0


@pytest.mark.thorough
@pytest.mark.servers
def test_a_worker_that_is_started_before_its_database_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "slow_app.py").write_text(APP, encoding="utf-8")
    with servers.postgres() as server:
        environment = {**os.environ, "DATABASE": server.url, "HEADGATE_APP": "slow_app:app"}
        headgate(environment, tmp_path, "migrate", "-d", server.url)
        server.stop()
        with worker(environment, tmp_path) as process:
            assert "; waiting for it, Ctrl-C stops" in process.stderr.readline()
            server.start()
            assert "the database is there" in process.stderr.readline()
            assert "working on hot and cold as" in process.stderr.readline()


def test_a_worker_hears_of_a_job_submitted_by_another_process(
    environment: Environment, tmp_path: Path
) -> None:
    with worker(environment, tmp_path) as process:
        assert "working on hot and cold as" in process.stderr.readline()
        job_id = submit(environment, tmp_path)
        assert "reading 2024-01-10" in read_line(process)
        for _ in range(9):
            read_line(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    job = show(environment, tmp_path, job_id)
    assert (job["state"], job["counts"]["days_held"]) == ("success", 10)


@once_on("sqlite")
@pytest.mark.fault(36)
def test_sigterm_finishes_the_chunk_under_way(environment: Environment, tmp_path: Path) -> None:
    job_id = submit(environment, tmp_path)
    with worker({**environment, "SECONDS": "0.5"}, tmp_path) as process:
        read_line(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    job = show(environment, tmp_path, job_id)
    assert (job["state"], job["operator"]["chunks"], job["operator"]["crashes"]) == (
        "pending",
        1,
        0,
    )


@once_on("sqlite")
@pytest.mark.fault(36)
def test_a_second_sigterm_hands_the_chunk_back_at_once(
    environment: Environment, tmp_path: Path
) -> None:
    job_id = submit(environment, tmp_path)
    with worker({**environment, "SECONDS": "60", "GRACE": "60"}, tmp_path) as process:
        read_line(process)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    job = show(environment, tmp_path, job_id)
    assert (job["state"], job["reason"], job["operator"]["chunks"]) == ("pending", "released", 0)


@pytest.mark.thorough
def test_a_worker_keeps_to_its_lane(environment: Environment, tmp_path: Path) -> None:
    # Given a backfill that waits in the cold lane, and a worker for live work alone
    cold = submit(environment, tmp_path)
    asked = ("job", "submit", "slow", "--user", "live", "--json")
    hot = json.loads(headgate(environment, tmp_path, *asked))["id"]
    with worker(environment, tmp_path, "--lane", "hot") as process:
        assert "working on hot as" in process.stderr.readline()
        while show(environment, tmp_path, hot)["state"] != "success":
            assert process.poll() is None
    assert show(environment, tmp_path, cold)["state"] == "pending"
    with worker(environment, tmp_path, "--lane", "cold") as process:
        while show(environment, tmp_path, cold)["state"] != "success":
            assert process.poll() is None


@pytest.mark.thorough
def test_the_demo_imports_and_tells(tmp_path: Path) -> None:
    given = ("demo", "--days", "12", "--speed", "1000")
    told = json.loads(headgate({**os.environ}, tmp_path, *given, "--json"))
    assert (told["state"], told["percent"]) == ("success", 100)
    assert told["counts"]["imported"] == told["counts"]["found"] > 0
    shown = headgate({**os.environ}, tmp_path, *given)
    assert "success" in shown and "12/12 days" in shown
    assert "0 requests over a limit" in shown


@pytest.mark.thorough
def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    # Given the example as it stands, in another folder, so that its file is made there
    environment = {**os.environ, "HEADGATE_APP": "examples.step_counts:app"}
    environment["PYTHONPATH"] = str(ROOT)
    asked = "job submit steps --user ada --mode history --json".split()
    days = ("--from", "2024-01-01", "--to", "2024-01-14")
    submitted = headgate(environment, tmp_path, *asked, *days)
    job_id = json.loads(submitted)["id"]
    work_off(environment, tmp_path, job_id)
    summary = show(environment, tmp_path, job_id)["counts"]
    assert (summary["days_held"], summary["days_empty"]) == (12, 2)


@pytest.mark.thorough
def test_the_example_of_a_shared_budget_runs_and_tells_what_it_spent(tmp_path: Path) -> None:
    # Given the example as it stands, in another folder
    environment = {**os.environ, "HEADGATE_APP": "examples.shared_budget:app"}
    environment["PYTHONPATH"] = str(ROOT)
    asked = ("job", "submit", "notes", "--user", "ada", "--json")
    job_id = json.loads(headgate(environment, tmp_path, *asked))["id"]

    # When a worker has done its ten pages
    work_off(environment, tmp_path, job_id)

    # Then the day's window says so, to machines and to people
    [told] = json.loads(headgate(environment, tmp_path, "budget", "notes", "--json"))["data"]
    [day] = [window for window in told["windows"] if window["limit"] == "day"]
    assert (day["used"], day["hot"], day["remaining"]) == (10, 10, 990)
    assert "10 of 1,000 used, 990 left" in headgate(environment, tmp_path, "budget")
