"""Listening sockets, opened before a server runs on them, and the limits of its connections."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from headgate.base.errors import InvalidInput


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long clients may take, and how many connections may be open."""

    #: From the connection, or from a request's first byte, to the end of its headers.
    headers_s: float = 10.0
    #: From the headers to the end of the body; and for a client that does not read its answer.
    body_s: float = 60.0
    #: Between two requests. Longer than most proxies keep theirs, so that they close first.
    idle_s: float = 75.0
    connections_max: int = 512


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on `host` and `port` for the length of a block; port 0 picks a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InvalidInput("port", f"cannot listen on {host}:{port}: {error}") from error
    with listener:
        yield listener


def listener_url(listener: socket.socket) -> str:
    """The http:// URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
