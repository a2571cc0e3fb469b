"""Every sandbox greets with commands: each is carried out here as it was printed."""

import http.client
import shlex
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from headgate.base.clock import ManualClock
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.registry import SANDBOXES, Options, build
from headgate_sandbox.serving import serving

SOON_S = 30
ATTEMPTS_MAX = 5


def curl(line: str) -> tuple[int, Any]:
    """What curl would do with that line, in the options that the greetings use."""
    words = iter(shlex.split(line.partition("curl ")[2]))
    headers: dict[str, str] = {}
    url, body, retries, follows = "", None, 0, False
    for word in words:
        match word:
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words).encode()
            case "--retry":
                retries = int(next(words))
            case "--location-trusted":
                follows = True
            case _:
                url = word
    for _ in range(ATTEMPTS_MAX):
        status, location, answer = fetch(url, headers, body)
        if status == 308 and follows:
            url = location
        elif status == 503 and retries:
            retries -= 1
        else:
            return status, answer
    raise AssertionError(f"no end to it: {line}")


def fetch(url: str, headers: dict[str, str], body: bytes | None) -> tuple[int, str, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SOON_S)
    try:
        path = f"{parts.path}?{parts.query}"
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        content = response.read()
        # Anything but JSON is a page, or the body of a fault.
        found = msgspec.json.decode(content) if content.startswith((b"{", b"[")) else content
        return response.status, response.headers.get("location", ""), found
    finally:
        connection.close()


def said(sandbox: Provider, base_url: str) -> dict[str, str]:
    """The lines of a greeting, by what each begins with."""
    return {line[:15].strip(): line for line in sandbox.greeting(base_url)}


@pytest.mark.parametrize("name", sorted(SANDBOXES))
def test_the_commands_of_a_greeting_work(name: str) -> None:
    sandbox = build(name, ManualClock(datetime(2026, 1, 5, tzinfo=UTC)), Options(records=30))
    with serving(sandbox) as base_url:
        lines = said(sandbox, base_url)
        tried, answer = curl(lines["try"])
        looked, stats = curl(lines["look"])
        planned, _ = curl(lines["break it"])
        struck, _ = curl(lines["try"].replace("--retry 3", ""))

    assert tried in (200, 201)
    assert answer
    assert (looked, planned) == (200, 201)
    assert stats
    # Foursquare calls a spent hour a 403.
    assert struck in (403, 429, 503)
