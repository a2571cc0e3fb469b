"""A container that was frozen between two calls: its connections are gone, and its clock jumps."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from headgate import JobState
from headgate.model.job import Lane
from tests.aws.test_on_demand import Place
from tests.aws_stack import Stack

COLD = Lane.COLD


class Proxy:
    """Passes connections on to a server, until they are cut."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._open += [client, server]
            threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()

    def cut(self) -> int:
        """Close every connection; returns how many there were."""
        cut, self._open = self._open, []
        for each in cut:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        return len(cut) // 2

    def close(self) -> None:
        self._listener.close()
        self.cut()


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    with client, server, selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, server)
        ready.register(server, selectors.EVENT_READ, client)
        while True:
            for key, _ in ready.select():
                source = key.fileobj
                assert isinstance(source, socket.socket)
                try:
                    piece = source.recv(65536)
                    if not piece:
                        return
                    key.data.sendall(piece)
                except OSError:
                    return


@contextmanager
def proxy_to(address: str) -> Iterator[Proxy]:
    parts = urlsplit(address)
    made = Proxy(str(parts.hostname), int(parts.port or 80))
    try:
        yield made
    finally:
        made.close()


def test_connections_that_closed_while_it_was_frozen_cost_nothing(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy_to(stack.address) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        place = Place(stack)
        for number in range(3):
            # Given a container that has connections, to the table and to the queues
            job = place.submit(f"thawed-{number}")
            [message] = place.functions.receive(COLD)
            # When they are closed while nothing runs in it, and hours pass
            assert proxy.cut() > 0
            place.clock.ahead += timedelta(hours=number)
            # Then the next call does its work all the same
            assert place.functions.deliver(COLD, [message]) == []
            assert place.job(job.id).state is JobState.SUCCESS
            assert place.job(job.id).crashes == 0
        place.close()
