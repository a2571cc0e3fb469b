"""A client of event streams, in process: it reads frame by frame and may go away at any time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from headgate.toolkit.serving.stoppable_site import StoppableSite
from tests.web.callers import Served

STREAM = {"Accept": "text/event-stream"}
#: Longer than anything takes, in virtual time: reached only when a test fails.
WAIT_S_MAX = 1e6


class Got(NamedTuple):
    """A frame as a client reads it; a heartbeat is one with a comment alone."""

    id: str | None = None
    event: str | None = None
    data: Any = None
    retry: str | None = None
    comment: str | None = None


def frames(text: str) -> list[Got]:
    """The frames of a text, which must be whole."""
    assert text.endswith("\n\n"), text
    return [_frame(each) for each in text.removesuffix("\n\n").split("\n\n")]


def _frame(text: str) -> Got:
    fields: dict[str, Any] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(": ")
        # One line for each field: a second one would be another way to read the same.
        assert (name or "comment") not in fields, text
        fields[name or "comment"] = value
    if "data" in fields:
        fields["data"] = json.loads(fields["data"])
    return Got(**fields)


def events(got: list[Got]) -> list[Got]:
    """Those with an event."""
    return [each for each in got if each.event is not None]


class Stream:
    """A response that is being sent."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = ""
        #: Whether the response was ended, and not broken off.
        self.complete = False
        self._changed = asyncio.Condition()
        self._gone = asyncio.Event()
        self._asked = False
        self._read = 0
        #: Set it to let the server wait: the client reads nothing more.
        self.stuck: asyncio.Event | None = None

    async def next(self) -> Got:
        """The next frame."""
        async with asyncio.timeout(WAIT_S_MAX), self._changed:
            await self._changed.wait_for(lambda: len(self._whole()) > self._read)
        self._read += 1
        return self._whole()[self._read - 1]

    async def next_event(self) -> Got:
        """The next frame with an event."""
        while (got := await self.next()).event is None:
            pass
        return got

    def leave(self) -> None:
        """Go away without a word."""
        self._gone.set()

    def _whole(self) -> list[Got]:
        whole, _, _ = self.body.rpartition("\n\n")
        return frames(whole + "\n\n") if whole else []

    async def receive(self) -> Any:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.stuck is not None:
            await self.stuck.wait()
        async with self._changed:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                self.body += message["body"].decode()
                self.complete = not message.get("more_body", False)
            self._changed.notify_all()


class Opened(NamedTuple):
    """A stream, and the server's task that sends it."""

    stream: Stream
    task: asyncio.Task[None]


@asynccontextmanager
async def opened(
    served: Served,
    path: str,
    token: str,
    *,
    headers: Mapping[str, str] = STREAM,
    stopping: asyncio.Event | None = None,
) -> AsyncIterator[Opened]:
    """A stream that is being sent; at the end of the block its client goes away."""
    stream, parts = Stream(), urlsplit(path)
    sent = {"authorization": f"Bearer {token}", **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("headgate.test", 80),
    }
    site = StoppableSite(served.web, stopping or asyncio.Event())
    task = asyncio.create_task(site(scope, stream.receive, stream.send))
    try:
        yield Opened(stream, task)
    finally:
        stream.leave()
        await task
