"""Limits the connections of the HTTP server: how long each may keep it waiting, and how many.

uvicorn closes idle connections by itself, and waits for ever for the rest of a request. Its own
protocol does all the work here; it is wrapped by one that keeps the time. A response may take as
long as it needs: only a client that does not send, or does not read, is cut off. The limits
themselves are `ConnectionLimits` in `base/listening.py`.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from headgate.base.listening import ConnectionLimits
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent

#: More than all headers of a request ever have.
HEADER_BYTES_MAX = 64 * 1024

_log = get_logger(__name__)


class LimitedConnections:
    """The open connections of one server; uvicorn calls it for the protocol of a new one."""

    def __init__(self, protocol: Callable[..., Any], limits: ConnectionLimits) -> None:
        """Wrap the protocols that `protocol` makes."""
        self._protocol = protocol
        self.limits = limits
        self._open: set[_LimitedConnection] = set()
        self._full = False

    def __call__(self, **of_uvicorn: Any) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _LimitedConnection(self._protocol(**of_uvicorn), self)

    def add(self, connection: "_LimitedConnection") -> bool:
        """Add a connection; False: there is no room for it.

        Where there is none, the client that has kept the server waiting longest has to leave.
        Otherwise a few hundred half requests would keep everybody else out.
        """
        if len(self._open) >= self.limits.connections_max:
            self._note_full()
            waiting = [each for each in self._open if each.waits_for_client]
            if not waiting:
                return False
            min(waiting, key=lambda each: each.since_s).cut("there are too many connections")
        else:
            self._full = False
        self._open.add(connection)
        return True

    def discard(self, connection: "_LimitedConnection") -> None:
        """Remove a connection that has ended."""
        self._open.discard(connection)

    def _note_full(self) -> None:
        # Once for each time that it gets full: whoever fills it must not fill the log as well.
        if not self._full:
            self._full = True
            _log.warning(LogEvent.CONNECTIONS_FULL, connections=len(self._open))


class _LimitedConnection(asyncio.Protocol):
    """One connection, with a deadline for whatever its client has to do next."""

    def __init__(self, uvicorn_protocol: Any, connections: LimitedConnections) -> None:
        self._inner = uvicorn_protocol
        self._connections = connections
        self._limits = connections.limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        #: What the client is waited for: the request, and the part of it.
        self._awaited: tuple[object, str | None] = (None, None)
        self._header_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._read_deadline: asyncio.TimerHandle | None = None
        #: Since when the client is waited for.
        self.since_s = self._loop.time()

    # ---- what the loop calls ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are of no class of asyncio.
        self._transport = stream = cast(asyncio.Transport, transport)
        if not self._connections.add(self):
            _refuse(stream, HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try later")
            return
        self._inner.connection_made(stream)
        self._await_client()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._inner.data_received(data)
        self._await_client()
        if self._awaited[1] == "headers":
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES_MAX:
                self.cut("its headers are too large", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def eof_received(self) -> None:
        self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()
        self._read_deadline = self._loop.call_later(
            self._limits.body_s, self.cut, "it does not read its answer"
        )

    def resume_writing(self) -> None:
        self._inner.resume_writing()
        if self._read_deadline is not None:
            self._read_deadline.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        for timer in (self._deadline, self._read_deadline):
            if timer is not None:
                timer.cancel()
        if self._inner.transport is not None:
            self._inner.connection_lost(exc)

    # ---- whom the connection waits for -----------------------------------------------------

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn."""
        return not self._is_closing and self._next_part() is not None

    @property
    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _next_part(self) -> str | None:
        """The part of a request that is to come; None: the answer is."""
        cycle = self._inner.cycle
        if cycle is None:
            return "headers"
        if cycle.response_complete:
            # The rest of a body that nobody wanted, or the next request.
            return "rest" if cycle.more_body else "headers"
        return "body" if cycle.more_body else None

    def _await_client(self) -> None:
        """Set the deadline when another part is awaited; bytes of the same part give no more."""
        awaited = self._inner.cycle, self._next_part()
        if awaited == self._awaited:
            return
        self._awaited, self._header_bytes, self.since_s = awaited, 0, self._loop.time()
        if self._deadline is not None:
            self._deadline.cancel()
        part = awaited[1]
        if part is not None:
            limits = self._limits
            wait_s = limits.headers_s if part == "headers" else limits.body_s
            self._deadline = self._loop.call_later(wait_s, self._end_wait, part)

    def _end_wait(self, part: str) -> None:
        if self._inner.flow.read_paused:
            # The server itself does not read at the moment: the client is not to blame.
            self._awaited = (None, None)
            self._await_client()
            return
        self.cut(f"its {part} took too long", HTTPStatus.REQUEST_TIMEOUT)

    def cut(self, why: str, status: HTTPStatus | None = None) -> None:
        """Close the connection, with an answer where there is none yet."""
        if self._transport is None or self._is_closing:
            return
        _log.debug(LogEvent.CONNECTION_CUT, why=why)
        cycle = self._inner.cycle
        unanswered = cycle is None or (cycle.response_complete or not cycle.response_started)
        if status is not None and unanswered:
            _refuse(self._transport, status, why)
        else:
            # Not `close`: it would wait for a client that does not read.
            self._transport.abort()


def _refuse(transport: asyncio.Transport, status: HTTPStatus, why: str) -> None:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "content-type: text/plain; charset=utf-8",
        f"content-length: {len(why)}",
        "connection: close",
        "",
        why,
    ]
    transport.write("\r\n".join(lines).encode("ascii"))
    transport.close()
