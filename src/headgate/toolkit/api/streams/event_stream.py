"""Server-sent events: a response that goes on for as long as there is something to tell.

What is sent comes in pages, and the next page is read when the last one is on its way, so a slow
client costs no memory. Whoever was disconnected sends the last id that it got as `Last-Event-ID`,
and goes on from there: each event has the id by which it is stored.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

from fastapi import Header, Query
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from headgate.base.clock import Clock
from headgate.base.encoding import to_json
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.toolkit.api.problems import RETRY_AFTER_S, ProblemError
from headgate.toolkit.serving.stoppable_site import stopping_of

MEDIA_TYPE = EventSourceResponse.media_type
#: The highest id that a database gives an event.
_ID_MAX = 2**63 - 1
#: Open streams of one API key, in this process.
STREAMS_MAX = 20
#: After so long without an event a comment is sent: proxies close connections that are silent.
HEARTBEAT_S = 15.0
#: How soon a client should come back when the connection is lost.
RETRY_MS = 2_000

_RETRY = format_sse_event(retry=RETRY_MS)
_HEARTBEAT = format_sse_event(comment="heartbeat")
_JSON = "application/json"
#: A response depends on this header where it may be a stream or a list.
VARY = {"Vary": "Accept"}

AfterEvent = Annotated[int, Query(ge=0, le=_ID_MAX, description="`next_cursor`.")]
LastEventId = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        le=_ID_MAX,
        description="For a stream: the last id that you got; the stream goes on after it.",
    ),
]

_log = get_logger(__name__)


#: The frames of a stream as they are sent, a page at a time.
Pages = AsyncGenerator[bytes, None]


def encode_frame(event: str, data: object, *, id: int | None = None) -> bytes:
    """Return one event as it is sent; by its `id` the client goes on after it."""
    return format_sse_event(event=event, data_str=to_json(data), id=None if id is None else str(id))


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


class EventStreamResponse(EventSourceResponse):
    """A stream of frames, until there are no more, the client is gone, or the server stops.

    FastAPI's own streams cannot be refused once they are asked for, know nothing of a server that
    stops, and measure silence by the real clock.
    """

    def __init__(self, pages: Pages, *, streams: EventStreams, key_id: str) -> None:
        """Send `pages` as one of the streams of that key."""
        # Nginx would hold frames back to send many at once.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **VARY}
        super().__init__(pages, headers=headers)
        self._pages = pages
        self._streams = streams
        self._key_id = key_id
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; ProblemError, before anything is sent, if the key has too many."""
        self.body_iterator = frames = self._frames(stopping_of(scope))
        try:
            # Counted here and not earlier: a response that is never sent holds no place.
            with self._streams.place(self._key_id):
                await super().__call__(scope, receive, send)
        finally:
            # Here, because nothing can be awaited where a client who is gone ends the stream.
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await frames.aclose()
            await self._pages.aclose()

    async def _frames(self, stopping: asyncio.Event) -> Pages:
        yield _RETRY
        stopped = self._start(stopping.wait())
        page = self._start(self._next_page())
        while True:
            silence = self._start(self._streams.clock.sleep(self._streams.heartbeat_s))
            await asyncio.wait((page, silence, stopped), return_when=asyncio.FIRST_COMPLETED)
            silence.cancel()
            if stopped.done():
                return
            if not page.done():
                yield _HEARTBEAT
                continue
            body = page.result()
            if body is None:
                return
            yield body
            page = self._start(self._next_page())

    async def _next_page(self) -> bytes | None:
        try:
            return await anext(self._pages, None)
        except Exception as error:
            # A stream that has begun can send no problem. It is closed, and the client, who comes
            # back, is told then.
            _log.warning(LogEvent.STREAM_BROKEN, key=self._key_id, error=describe_error(error))
            return None

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name="event stream")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


# ---- for the OpenAPI document ------------------------------------------------------------------


def events_response(*frames: bytes) -> dict[str, Any]:
    """Describe a response that may be a stream, with these frames as its example."""
    examples = {"stream": {"value": (_RETRY + b"".join(frames)).decode()}}
    return {
        "description": "A page of events; or a stream of them, if `Accept` asks for one.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "examples": examples}},
    }
