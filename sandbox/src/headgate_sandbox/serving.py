"""This module serves a sandbox over HTTP on this machine, alone or in a thread beside a test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from headgate.base.clock import Clock, SystemClock
from headgate.base.listening import listener_url, listening
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.registry import Options, build

#: Only loopback: a sandbox's credentials are not secret, so no other machine may reach it.
HOST = "127.0.0.1"
STOP_S = 10.0


def serve(
    name: str,
    port: int,
    *,
    seed: int = 1,
    users: int = 1,
    records: int = 700,
    clock: Clock | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Serve one sandbox until Ctrl-C; port 0 picks a free port."""
    options = Options(seed=seed, users=users, records=records)
    sandbox = build(name, clock or SystemClock(), options)
    with listening(HOST, port) as listener:
        base_url = listener_url(listener)
        say(f"{name} sandbox  {base_url}")
        for line in sandbox.greeting(base_url):
            say(line)
        _server(sandbox).run(sockets=[listener])


@contextmanager
def serving(sandbox: Provider, port: int = 0) -> Iterator[str]:
    """Serve a sandbox in a thread while the `with` block runs; yields its address."""
    with listening(HOST, port) as listener:
        server = _server(sandbox)
        # The socket already listens, so a client that is faster than the thread just waits.
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield listener_url(listener)
        finally:
            server.should_exit = True
            thread.join(STOP_S)


def _server(sandbox: Provider) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(sandbox, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    )
