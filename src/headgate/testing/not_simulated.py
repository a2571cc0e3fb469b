"""The parts of asyncio's loop interface that a simulation refuses: everything real.

The module owns only the refusals. What a simulation has is in `loop.py`.
"""

import asyncio
from typing import Any, NoReturn


class NotSimulated(NotImplementedError):
    """The program used something real, such as a socket, that a simulation does not have."""


def _absent(what: str) -> Any:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise NotSimulated(f"a simulation has no {what}")

    return refuse


class UnrealLoop(asyncio.AbstractEventLoop):
    """An event loop with nothing real in it: each of these raises `NotSimulated`."""

    add_signal_handler = remove_signal_handler = _absent("signals")
    set_default_executor = shutdown_default_executor = _absent("threads")
    subprocess_exec = subprocess_shell = _absent("subprocesses")
    connect_read_pipe = connect_write_pipe = _absent("pipes")
    run_forever = stop = _absent("end without a main future: use run_until_complete")
    set_task_factory = set_debug = _absent("asyncio settings")
    get_exception_handler = set_exception_handler = default_exception_handler = _absent(
        "exception handler: an error that nobody handles fails the run"
    )
    create_connection = create_server = create_datagram_endpoint = _absent("sockets")
    create_unix_connection = create_unix_server = connect_accepted_socket = _absent("sockets")
    getaddrinfo = getnameinfo = start_tls = sendfile = sock_sendfile = _absent("sockets")
    add_reader = remove_reader = add_writer = remove_writer = _absent("sockets")
    sock_recv = sock_recv_into = sock_recvfrom = sock_recvfrom_into = _absent("sockets")
    sock_sendall = sock_sendto = sock_connect = sock_accept = _absent("sockets")
