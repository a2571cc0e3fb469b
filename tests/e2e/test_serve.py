"""`headgate serve` as a process: keys, the seed's paths, signals, and what it refuses."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.connecting import key_entries
from tests.e2e.processes import headgate, serving, started

APP = """
import msgspec

import headgate
from headgate.systems.health_history import system

class Watch:
    name = "watch"
    async def read(self, ctx):
        return headgate.Chunk(records=[headgate.Record(str(ctx.day), {"steps": 1})])

syncs = [headgate.Sync(name="history", source=Watch())]
app = headgate.App("sqlite:///jobs.db", systems=[system.with_syncs(syncs)])
"""
ASKED = {"source": "watch", "startDate": "2024-01-01", "endDate": "2024-01-10"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "served_app.py").write_text(APP, encoding="utf-8")
    return {
        **os.environ,
        "HEADGATE_APP": "served_app:app",
        "HEADGATE_KEYS": ",".join(key_entries("k1")),
    }


def call(
    url: str, key: str | None = None, body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any, Any]:
    given = {**(headers or {}), **({"Authorization": f"Bearer {key}"} if key else {})}
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        given["Content-Type"] = "application/json"
    try:
        with urlopen(Request(url, data=data, headers=given), timeout=30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None, answer.headers
    except HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else None, error.headers


def new_key(environment: Mapping[str, str], folder: Path, user: str) -> str:
    asked = ("api-key", "new", "phone", "--user", user, "--json")
    key: str = json.loads(headgate(environment, folder, *asked))["key"]
    return key


def test_a_client_written_to_the_seed_imports_with_a_key_of_its_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    ada, eve = (new_key(environment, tmp_path, user) for user in ("ada", "eve"))
    with serving(environment, tmp_path, "--with-worker") as (url, process):
        # Given nobody is let in without a key
        assert call(f"{url}/jobs")[0] == 401

        # When Ada starts an import and asks how it stands until it is done
        status, job, headers = call(f"{url}/jobs", ada, ASKED)
        assert (status, job["userId"]) == (202, "ada")
        path = f"{url}/jobs/{job['jobId']}/status"
        while job["status"] != "COMPLETED":
            assert process.poll() is None
            status, job, headers = call(path, ada)
            assert status == 200

        # Then asking again costs nothing, and nobody else sees it
        assert job["percent"] == 100
        assert call(path, ada, headers={"If-None-Match": headers["ETag"]})[0] == 304
        assert call(path, eve)[0] == 404

        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.security(28)
def test_a_request_that_is_never_finished_is_cut_off(
    environment: dict[str, str], tmp_path: Path
) -> None:
    impatient = {**environment, "HEADGATE_HTTP_HEADERS_S": "0.1"}
    with serving(impatient, tmp_path, "--with-worker") as (url, _):
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=60) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: he")

            assert client.makefile("rb").read().startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(("proxies", "client"), [("", "127.0.0.1"), ("127.0.0.0/8", "192.0.2.7")])
@pytest.mark.security(28)
def test_a_proxy_is_believed_only_if_it_is_named(
    environment: dict[str, str], tmp_path: Path, proxies: str, client: str
) -> None:
    told = {**environment, "HEADGATE_PROXIES": proxies, "HEADGATE_LOG_FORMAT": "json"}
    with serving(told, tmp_path, "--with-worker") as (url, process):
        assert call(f"{url}/v1/jobs", headers={"X-Forwarded-For": "192.0.2.7"})[0] == 401

        lines = iter(process.stderr.readline, "")
        failed = next(line for line in lines if "authentication_failed" in line)
    assert json.loads(failed)["client"] == client


@pytest.mark.security(5)
def test_a_public_address_needs_a_key_first(environment: dict[str, str], tmp_path: Path) -> None:
    with started(environment, tmp_path, "serve", "--host", "0.0.0.0", "--port", "0") as process:
        assert process.wait() == 2
        said = process.stderr.read()

    assert "there is no API key yet" in said
    assert "headgate api-key new" in said


def test_without_keys_it_says_how_to_make_one(environment: dict[str, str], tmp_path: Path) -> None:
    del environment["HEADGATE_KEYS"]
    with started(environment, tmp_path, "serve") as process:
        assert process.wait() == 4
        said = process.stderr.read()

    assert "headgate keys new" in said


@pytest.mark.thorough
def test_the_openapi_document_is_printed(environment: dict[str, str], tmp_path: Path) -> None:
    told = json.loads(headgate(environment, tmp_path, "openapi"))

    assert told["openapi"].startswith("3.")
    assert {"/v1/jobs", "/jobs/{jobId}/status", "/jobs/{jobId}/retry"} <= set(told["paths"])


@pytest.mark.thorough
def test_the_module_runs_as_a_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "serve", "--help"], capture_output=True, text=True
    )
    assert "--with-worker" in done.stdout
