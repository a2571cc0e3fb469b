"""Server-sent events: a response that goes on for as long as there is something to tell.

What is sent comes in pages, and the next page is read when the last one is on its way, so a slow
client costs no memory. Whoever was disconnected sends the last id that it got as `Last-Event-ID`,
and goes on from there: each event has the id by which it is stored.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import msgspec
from fastapi import Header
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headgate.base.clock import Clock
from headgate.base.encoding import Json, to_json
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.toolkit.api.problems import RETRY_AFTER_S, ProblemError
from headgate.toolkit.serving.stopping import stopping_of

MEDIA_TYPE = "text/event-stream"
#: The highest id that a database gives an event.
EVENT_ID_MAX = 2**63 - 1
#: Open streams of one API key, in this process.
STREAMS_MAX = 20
#: After so long without an event a comment is sent: proxies close connections that are silent.
HEARTBEAT_S = 15.0
#: How soon a client should come back when the connection is lost.
RETRY_MS = 2_000

_RETRY = f"retry: {RETRY_MS}\n\n".encode()
_HEARTBEAT = b": heartbeat\n\n"
_JSON = "application/json"
#: A response depends on this header where it may be a stream or a list.
VARY = {"Vary": "Accept"}

LastEventId = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        le=EVENT_ID_MAX,
        description="For a stream: the last id that you got; the stream goes on after it.",
    ),
]

_log = get_logger(__name__)


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it is sent."""

    #: What the event is called: one word.
    event: str
    #: Sent as JSON in one line.
    data: Json
    #: The id by which the client goes on; None: it goes on after the event before.
    id: int | None = None

    def encode(self) -> bytes:
        """Return the lines of the frame, and the empty line that ends it."""
        head = "" if self.id is None else f"id: {self.id}\n"
        return f"{head}event: {self.event}\ndata: {to_json(self.data)}\n\n".encode()


#: The frames of a stream, a page at a time.
Pages = AsyncGenerator[Sequence[Frame], None]


def wants_stream(accept: str, media_type: str = MEDIA_TYPE) -> bool:
    """Whether an `Accept` header asks for a stream: by its name, and not less than for JSON."""
    weights = {}
    for each in accept.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        weights[name] = _weight(parameters)
    wanted = weights.get(media_type, 0.0)
    return wanted > 0 and wanted >= weights.get(_JSON, 0.0)


def _weight(parameters: Sequence[str]) -> float:
    """Return the weight of a media type; 0, which is a refusal, where it cannot be read."""
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip() == "q":
            with suppress(ValueError):
                weight = float(value)
                return weight if math.isfinite(weight) else 0.0
            return 0.0
    return 1.0


class EventStreams:
    """The open streams of this process, counted for each API key."""

    def __init__(
        self, clock: Clock, *, per_key: int = STREAMS_MAX, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        """Let each key have `per_key` streams, each with a heartbeat every `heartbeat_s`."""
        self.clock = clock
        self.heartbeat_s = heartbeat_s
        self._per_key = per_key
        self._open: Counter[str] = Counter()

    def count(self, key_id: str) -> int:
        """Return how many streams of the key are open."""
        return self._open[key_id]

    @contextmanager
    def place(self, key_id: str) -> Iterator[None]:
        """Count a stream for the length of a block, or refuse it."""
        if self._open[key_id] >= self._per_key:
            raise ProblemError(
                "too_many_streams",
                f"at most {self._per_key} event streams of one API key may be open at once",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        self._open[key_id] += 1
        try:
            yield
        finally:
            self._open[key_id] -= 1
            # Else every key that was ever used would stay in memory.
            if not self._open[key_id]:
                del self._open[key_id]


class EventStreamResponse(Response):
    """A stream of frames, until there are no more, the client is gone, or the server stops."""

    media_type = MEDIA_TYPE

    def __init__(self, pages: Pages, *, streams: EventStreams, key_id: str) -> None:
        """Send `pages` as one of the streams of that key."""
        self.status_code = 200
        self.background = None
        # Nginx would hold frames back to send many at once.
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no", **VARY})
        self._pages = pages
        self._streams = streams
        self._key_id = key_id
        self._sent_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; ProblemError, before anything is sent, if the key has too many."""
        try:
            # Counted here and not earlier: a response that is never sent holds no place.
            with self._streams.place(self._key_id):
                await self._stream(scope, receive, send)
        finally:
            await self._pages.aclose()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        gone = asyncio.create_task(wait_until_gone(receive), name="client is gone")
        tasks = (
            gone,
            asyncio.create_task(self._send_pages(send), name="event stream"),
            asyncio.create_task(self._send_heartbeats(send), name="heartbeats"),
            asyncio.create_task(stopping_of(scope).wait(), name="server stops"),
        )
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            client_is_gone = gone.done()
        finally:
            for each in tasks:
                each.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        client_is_gone = client_is_gone or any(isinstance(each, OSError) for each in results)
        if not client_is_gone:
            self._log_failures(results)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_pages(self, send: Send) -> None:
        await self._send(send, _RETRY)
        async for page in self._pages:
            await self._send(send, b"".join(each.encode() for each in page))

    async def _send_heartbeats(self, send: Send) -> None:
        clock, every_s = self._streams.clock, self._streams.heartbeat_s
        self._sent_at = clock.monotonic()
        while True:
            left_s = self._sent_at + every_s - clock.monotonic()
            if left_s > 0:
                await clock.sleep(left_s)
            else:
                await self._send(send, _HEARTBEAT)

    async def _send(self, send: Send, body: bytes) -> None:
        """Send whole frames; it waits while the client is slow."""
        await send({"type": "http.response.body", "body": body, "more_body": True})
        self._sent_at = self._streams.clock.monotonic()

    def _log_failures(self, results: Sequence[Any]) -> None:
        # A stream that has begun can send no problem. It is closed, and the client, who comes back,
        # is told then.
        for each in results:
            if isinstance(each, Exception):
                _log.warning(LogEvent.STREAM_BROKEN, key=self._key_id, error=describe_error(each))


async def wait_until_gone(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


# ---- for the OpenAPI document ------------------------------------------------------------------


def stream_content(*frames: Frame) -> dict[str, Any]:
    """Describe the `content` of a response that may be a stream, with these frames as example."""
    example = (_RETRY + b"".join(each.encode() for each in frames)).decode()
    return {MEDIA_TYPE: {"schema": {"type": "string"}, "examples": {"stream": {"value": example}}}}
