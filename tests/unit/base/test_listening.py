"""A socket that listens before anybody serves."""

import socket

import pytest

from headgate.base.errors import InvalidInput
from headgate.base.listening import listener_url, listening


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")]
)
def test_a_client_may_connect_before_anybody_serves(host: str, shown: str) -> None:
    with listening(host, 0) as listener:
        port = listener.getsockname()[1]
        assert listener_url(listener) == f"{shown}{port}"
        socket.create_connection((host, port), timeout=5).close()


def test_a_port_that_is_taken_is_refused_by_its_field() -> None:
    with listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"cannot listen on 127.0.0.1:{port}"):
            with listening("127.0.0.1", port):
                pass
