"""What worker processes measure, read from outside: by themselves, and beside the HTTP API."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests import processes
from tests.connecting import key_entries
from tests.e2e.processes import headgate, started
from tests.processes import Process

APP = """
import headgate

class Watch:
    name = "watch"
    async def read(self, ctx):
        return headgate.Chunk(records=[headgate.Record(str(ctx.day), {"steps": 1})])

app = headgate.App("sqlite:///jobs.db", syncs=[headgate.Sync(name="history", source=Watch())])
"""
SUBMIT = ("job", "submit", "history", "--user", "ada", "--mode", "history")
DAYS = ("--from", "2024-01-01", "--to", "2024-01-10")
CHUNKS = "headgate_chunk_duration_seconds_count"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "measured_app.py").write_text(APP, encoding="utf-8")
    keys = ",".join(key_entries("k1"))
    return {**os.environ, "HEADGATE_APP": "measured_app:app", "HEADGATE_KEYS": keys}


def scraped(url: str, key: str | None = None) -> list[Sample]:
    """What a page tells now."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with urlopen(Request(url, headers=headers), timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [sample for family in families for sample in family.samples]


def chunks_done(samples: list[Sample]) -> float:
    [done] = [
        each.value for each in samples if each.name == CHUNKS and each.labels["outcome"] == "ok"
    ]
    return done


def until_ten(process: Process, url: str, key: str | None = None) -> list[Sample]:
    """Ask again and again, until all ten days are measured."""
    while chunks_done(samples := scraped(url, key)) < 10:
        assert process.poll() is None
    return samples


def said_after(process: Process, start: str) -> str:
    """The rest of the first line on its errors that begins with that."""
    lines: Iterator[str] = iter(process.stderr)
    found = next(line for line in lines if line.startswith(start))
    return found.removeprefix(start).strip()


def test_a_worker_shows_what_it_measures(environment: dict[str, str], tmp_path: Path) -> None:
    with started(environment, tmp_path, "worker", "--metrics-port", "0") as process:
        url = said_after(process, "metrics at ")
        assert url.startswith("http://127.0.0.1:")
        assert chunks_done(scraped(url)) == 0

        headgate(environment, tmp_path, *SUBMIT, *DAYS)
        samples = until_ten(process, url)

        # Of itself alone: what the database says is told elsewhere, and nothing of the interpreter.
        names = {each.name for each in samples}
        assert "headgate_lost_claims_total" in names
        assert "headgate_jobs" not in names
        assert not [name for name in names if not name.startswith("headgate_")]
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.thorough
def test_serving_with_a_worker_tells_what_it_measures_beside_the_rest(
    environment: dict[str, str], tmp_path: Path
) -> None:
    asked = ("api-key", "new", "prometheus", "--role", "admin", "--json")
    key: str = json.loads(headgate(environment, tmp_path, *asked))["key"]
    with started(environment, tmp_path, "serve", "--port", "0", "--with-worker") as process:
        url = said_after(process, "serving ").partition(";")[0] + "/metrics"
        headgate(environment, tmp_path, *SUBMIT, *DAYS)

        until_ten(process, url, key)

        jobs = {
            each.labels["state"]: each.value
            for each in scraped(url, key)
            if each.name == "headgate_jobs"
        }
        assert jobs == {**dict.fromkeys(jobs, 0), "success": 1}
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.thorough
def test_a_port_that_is_taken_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    with started(environment, tmp_path, "worker", "--metrics-port", "0") as process:
        port = said_after(process, "metrics at ").partition("1:")[2].removesuffix("/metrics")

        refused = processes.run(
            "headgate", "worker", "--metrics-port", port, environment=environment, folder=tmp_path
        )

    assert (refused.code, f"cannot listen on 127.0.0.1:{port}" in refused.stderr) == (2, True)
