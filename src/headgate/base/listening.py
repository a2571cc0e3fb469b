"""Listening sockets, opened before a server runs on them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.base.errors import InvalidInput


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


def address_of(listener: socket.socket) -> str:
    """The URL of the socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
