"""Streams of events from `headgate serve` as a process, to clients on real connections."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from headgate.cli.serve.server import STOP_S
from tests.connecting import key_entries
from tests.e2e.processes import serving
from tests.e2e.test_serve import call, new_key

APP = """
import asyncio
from pathlib import Path

import headgate

class Watch:
    name = "watch"
    async def read(self, ctx):
        gate = Path(f"gate-{ctx.day}")
        if gate.exists():
            # Opened to be read until somebody has opened it to write.
            await asyncio.to_thread(gate.read_text)
        told = [headgate.ChunkEvent("line_read", {"n": n}) for n in range(5)]
        return headgate.Chunk(records=[headgate.Record(str(ctx.day), {"steps": 1})], events=told)

syncs = [headgate.Sync(name="days", source=Watch(), modes=[headgate.Mode.HISTORY])]
app = headgate.App("sqlite:///jobs.db", syncs=syncs)
"""
ASKED = {"source": "watch", "start_date": "2024-01-01", "end_date": "2024-02-29"}
#: Days at which the job stands until the test lets it go on: it runs from the last to the first.
GATES = ("2024-02-20", "2024-01-25", "2024-01-02")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "streamed_app.py").write_text(APP, encoding="utf-8")
    return {
        **os.environ,
        "HEADGATE_APP": "streamed_app:app",
        "HEADGATE_KEYS": ",".join(key_entries("k1")),
    }


@contextmanager
def following(url: str, key: str, *, last: str | None = None) -> Iterator[HTTPResponse]:
    """A stream, whose connection is cut at the end of the block."""
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}
    if last is not None:
        headers["Last-Event-ID"] = last
    with urlopen(Request(url, headers=headers), timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield answer


def events(answer: HTTPResponse) -> Iterator[dict[str, Any]]:
    """The events of a stream as they come, until it ends."""
    fields: dict[str, Any] = {}
    for line in iter(answer.readline, b""):
        name, separator, value = line.decode().rstrip("\n").partition(": ")
        if separator and name:
            fields[name] = value
        elif not line.strip() and "data" in fields:
            yield {**fields, "data": json.loads(fields["data"])}
            fields = {}


@pytest.mark.thorough
def test_a_client_that_is_cut_off_again_and_again_gets_every_event_once(
    environment: dict[str, str], tmp_path: Path
) -> None:
    # Given a job that stands at some of its days until it is let go on
    for day in GATES:
        os.mkfifo(tmp_path / f"gate-{day}")
    key = new_key(environment, tmp_path, "ada")
    got: list[dict[str, Any]] = []
    with serving(environment, tmp_path, "--with-worker") as (url, process):
        status, job, _ = call(f"{url}/v1/jobs", key, ASKED)
        assert status == 202
        path = f"{url}/v1/jobs/{job['id']}/events"

        # When its client reads some of what there is, is cut off, and comes back, all the while
        for day in GATES:
            for _ in range(3):
                with following(path, key, last=got[-1]["id"] if got else None) as answer:
                    for each in events(answer):
                        got.append(each)
                        if len(got) % 13 == 0:
                            break
            (tmp_path / f"gate-{day}").write_text("go on")
        with following(path, key, last=got[-1]["id"]) as answer:
            got.extend(events(answer))

        # Then it has every event once and in order, as they are listed, and the end
        end = got.pop()
        assert (end["event"], end["data"]) == ("end", {"job_id": job["id"], "state": "success"})
        stored, after = [], "0"
        while after is not None:
            page = call(f"{path}?after={after}", key)[1]
            stored.extend(page["data"])
            after = page["next_cursor"]
        assert [each["data"] for each in got] == stored
        assert [each["id"] for each in got] == [str(each["id"]) for each in stored]
        assert len(stored) > 60 * 6
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_open_streams_do_not_keep_the_server_from_stopping(
    environment: dict[str, str], tmp_path: Path
) -> None:
    # Given two open streams of a job that nobody works on
    key = new_key(environment, tmp_path, "ada")
    with serving(environment, tmp_path) as (url, process):
        job = call(f"{url}/v1/jobs", key, ASKED)[1]
        path = f"{url}/v1/jobs/{job['id']}/events"
        with following(path, key) as one, following(path, key) as other:
            told = [events(one), events(other)]
            assert [next(each)["event"] for each in told] == ["submitted"] * 2

            # When the server is asked to stop
            process.send_signal(signal.SIGTERM)

            # Then it ends before its grace is over, and both streams were ended whole: to read one
            # that is broken off would raise
            assert process.wait(timeout_s=0.8 * STOP_S) == 0
            assert [each.read() for each in (one, other)] == [b"", b""]
