"""A client without a network: it calls the sandbox's ASGI application in the same task."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.types import ASGIApp, Message

from headgate.testing import run
from tests.worlds import as_test

#: Makes tests of coroutine functions, which get the loop of a simulation.
in_virtual_time = as_test(lambda folder, main: run(main))

BOUNDARY = "a-line-between-parts"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Client:
    """Sends one request at a time, as the holder of a token or as nobody."""

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        self._app = app
        self.token = token

    async def get(self, path: str, **query: object) -> Answer:
        return await self.send("GET", path, query=query)

    async def post(
        self,
        path: str,
        *,
        form: Mapping[str, object] | None = None,
        json: object = None,
        raw: bytes | None = None,
        files: Mapping[str, tuple[str, bytes]] | None = None,
        **query: object,
    ) -> Answer:
        if files is not None:
            body, kind = _multipart(form or {}, files), f"multipart/form-data; boundary={BOUNDARY}"
        elif json is not None:
            body, kind = msgspec.json.encode(json), "application/json"
        elif form is not None:
            body, kind = urlencode(dict(form)).encode(), "application/x-www-form-urlencoded"
        else:
            body, kind = raw or b"", "application/json"
        return await self.send("POST", path, query=query, body=body, kind=kind)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes = b"",
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
        leaves: bool = False,
    ) -> Answer:
        """Send it and wait; `leaves` hangs up right after the last byte was sent."""
        named = {"host": "sandbox", "content-type": kind, **(headers or {})}
        if self.token is not None:
            named["authorization"] = f"Bearer {self.token}"
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": urlencode(dict(query or {})).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        }
        incoming: list[Message] = [{"type": "http.request", "body": body}]
        if leaves:
            incoming.append({"type": "http.disconnect"})
        sent: list[Message] = []

        async def receive() -> Message:
            if not incoming:
                await asyncio.Event().wait()
            return incoming.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        if not sent:
            raise ConnectionError("no answer came")
        start, *rest = sent
        names = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], names, b"".join(part["body"] for part in rest))


def _multipart(form: Mapping[str, object], files: Mapping[str, tuple[str, bytes]]) -> bytes:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in form.items()
    ]
    for name, (file, content) in files.items():
        head = f'form-data; name="{name}"; filename="{file}"'
        parts.append(
            f"--{BOUNDARY}\r\nContent-Disposition: {head}\r\n\r\n".encode() + content + b"\r\n"
        )
    return b"".join([*parts, f"--{BOUNDARY}--\r\n".encode()])
