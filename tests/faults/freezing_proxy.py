"""Between a worker and Postgres: freezes the worker at an exact point of its conversation.

For the server it makes no difference whether a client's next message is late because the process
was stopped or because the network was. Stopping it here, and keeping the message back, is both, and
happens at the same point every time.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

_SSL_REQUEST = 80877103


class FreezeAt(StrEnum):
    """What the worker was about to send when it was frozen, a lock already in its hands."""

    #: The next statement is prepared; the server waits for the values to run it with.
    BIND = "bind"
    #: Three bytes of COMMIT have arrived.
    COMMIT = "commit"


class FreezingProxy:
    """Passes everything on until a connection has run the locking statement, then freezes it."""

    def __init__(self, server: str, locking: str, at: FreezeAt) -> None:
        """Freeze, before the message `at`, whoever ran a statement that matches `locking`."""
        self._server = urlsplit(server)
        self._locking = re.compile(locking.encode(), re.DOTALL)
        self._at = at
        self._port = 0
        self.freeze: Callable[[], None]
        self.frozen = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The server's address, through here."""
        return urlunsplit(self._server._replace(netloc=f"postgres@127.0.0.1:{self._port}"))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        theirs, ours = await asyncio.open_connection(self._server.hostname, self._server.port)
        answers = asyncio.create_task(_pass_on(theirs, writer))
        try:
            await self._requests(reader, ours)
            # Frozen, or gone: wait until the server has had enough of it.
            if not self.frozen.is_set():
                ours.close()
            await answers
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            answers.cancel()
            for each in (writer, ours):
                each.close()
            self._serving.discard(task)

    async def _requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        """Pass messages on, up to the one to freeze at."""
        while True:
            opening = await reader.readexactly(8)
            length, code = int.from_bytes(opening[:4]), int.from_bytes(opening[4:])
            server.write(opening + await reader.readexactly(length - 8))
            if code != _SSL_REQUEST:
                break
        prepared = has_lock = False
        while True:
            head = await reader.readexactly(5)
            kind, body = head[:1], await reader.readexactly(int.from_bytes(head[1:]) - 4)
            if has_lock and not self.frozen.is_set() and self._is_the_one(kind, body):
                server.write(head[:3] if self._at is FreezeAt.COMMIT else b"")
                self.freeze()
                self.frozen.set()
                return
            server.write(head + body)
            if kind == b"P":
                prepared = bool(self._locking.search(body))
            elif kind == b"E" and prepared:
                has_lock, prepared = True, False

    def _is_the_one(self, kind: bytes, body: bytes) -> bool:
        if self._at is FreezeAt.COMMIT:
            return kind == b"Q" and body.startswith(b"COMMIT")
        return kind == b"B"


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)


@asynccontextmanager
async def freezing(server: str, locking: str, at: FreezeAt) -> AsyncIterator[FreezingProxy]:
    """A proxy in front of the server; whatever it still has open is closed afterwards."""
    proxy = FreezingProxy(server, locking, at)
    listening = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
    proxy._port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        for task in list(proxy._serving):
            task.cancel()
        await asyncio.gather(*proxy._serving, return_exceptions=True)
