"""The transport that calls ASGI applications in this process: sandboxes under a virtual clock.

There are no threads and no sockets, and time is the injected clock's. The application runs in a
context of its own, as a real provider runs on its own machines: when a simulated client dies, its
requests are still carried out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import Context
from typing import Any
from urllib.parse import unquote, urlsplit

from headgate.base.clock import Clock
from headgate.base.errors import Transient
from headgate.net.unpacking import Body
from headgate.net.urls import origin_of
from headgate.ports.transport import Headers, Request, Response

Message = MutableMapping[str, Any]
Application = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[Message]],
        Callable[[Message], Awaitable[None]],
    ],
    Awaitable[None],
]


class AsgiTransport:
    """Calls ASGI applications by the origins that they represent."""

    def __init__(
        self, apps: Mapping[str, Application], clock: Clock, *, latency_s: float = 0.0
    ) -> None:
        """Map origins such as `https://www.strava.com` to apps; `latency_s` is the round trip."""
        self._apps = {str(origin_of(url)): app for url, app in apps.items()}
        self._clock = clock
        self._latency_s = latency_s
        self._running: set[asyncio.Task[None]] = set()

    async def send(self, request: Request) -> Response:
        """Call the application, and wait for its whole response."""
        origin = origin_of(request.url)
        app = self._apps.get(str(origin))
        if app is None:
            raise Transient(f"nobody listens at {origin}")
        exchange = _Exchange(request)
        timer = asyncio.ensure_future(self._clock.sleep(request.timeouts.total_s))
        try:
            await self._clock.sleep(self._latency_s / 2)
            self._run(exchange, app)
            answered: asyncio.Future[None] = exchange.answered
            await asyncio.wait([answered, timer], return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                seconds = request.timeouts.total_s
                raise Transient(f"{origin} did not answer within {seconds:g} s")
            answered.result()
            await self._clock.sleep(self._latency_s / 2)
            return exchange.response()
        finally:
            timer.cancel()
            exchange.hang_up()

    async def close(self) -> None:
        """Cancel the requests whose clients have left."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _run(self, exchange: "_Exchange", app: Application) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(exchange.run(app), context=Context())
        self._running.add(task)
        task.add_done_callback(self._running.discard)


class _Exchange:
    """One request and its response, in ASGI's messages."""

    def __init__(self, request: Request) -> None:
        self._request = request
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = loop.create_future()
        self._left: asyncio.Future[None] = loop.create_future()
        self._sent = False
        self._status: int | None = None
        self._headers = Headers()
        self._body: Body | None = None

    async def run(self, app: Application) -> None:
        """Run the application; an error goes to the waiting client, if there is one."""
        try:
            await app(self._scope(), self._receive, self._send)
        except Exception as error:
            self._fail(error)
        else:
            self._fail(Transient("the provider closed the connection without an answer"))

    def hang_up(self) -> None:
        """Tell the application that the client has left."""
        if not self._left.done():
            self._left.set_result(None)
        # Nobody reads the result any more; asyncio would warn about an unread error.
        if not self.answered.cancel() and not self.answered.cancelled():
            self.answered.exception()

    def response(self) -> Response:
        """Return the whole response."""
        assert self._status is not None and self._body is not None
        return Response(
            status=self._status,
            headers=self._headers,
            body=self._body.whole(),
            url=self._request.url,
        )

    def _scope(self) -> MutableMapping[str, Any]:
        request, origin = self._request, origin_of(self._request.url)
        parts = urlsplit(request.url)
        host = str(origin).partition("://")[2]
        headers = [("host", host), ("content-length", str(len(request.body))), *request.headers]
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": origin.scheme,
            "path": unquote(parts.path) or "/",
            "raw_path": parts.path.encode(),
            "root_path": "",
            "query_string": parts.query.encode(),
            "headers": [(name.encode("latin-1"), value.encode()) for name, value in headers],
            "server": (origin.host, origin.port),
            "client": ("127.0.0.1", 0),
        }

    async def _receive(self) -> Message:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        # An application that waits for more waits until the client leaves.
        await asyncio.shield(self._left)
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.answered.done():
            return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            named = [(name.decode(), value.decode()) for name, value in message.get("headers", [])]
            self._headers = Headers(named)
            return
        assert message["type"] == "http.response.body", f"unexpected message {message['type']}"
        try:
            if self._body is None:
                packed = self._headers.get("content-encoding") or ""
                self._body = Body(packed, bytes_max=self._request.timeouts.bytes_max)
            self._body.add(message.get("body", b""))
        except Exception as error:
            self._fail(error)
            return
        if not message.get("more_body", False):
            self.answered.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)
