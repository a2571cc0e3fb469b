"""The limiter in a real Redis that asks for TLS, and for a user who may do little.

The server of the tests has no TLS of its own, so a proxy in front of it has.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError

from headgate.base.clock import SystemClock
from headgate.limits import redis as limits_redis
from headgate.model.budget import Granted, Unreachable
from tests.certificates import certificate
from tests.limiters import STRAVA, Opened, ask
from tests.servers import ValkeyServer, valkey

PASSWORD = "s3cret-passw0rd"
#: What `docs/how-to/budgets.md` tells to give to Headgate's user, and no more.
RULES = ("~{headgate}:*", "+evalsha", "+script|load", "+get", "+set", "+time")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time for a handshake on a busy machine."""
    monkeypatch.setattr(limits_redis, "TIMEOUT_S", 30.0)


@pytest.fixture(scope="module")
def started() -> Iterator[ValkeyServer]:
    with valkey() as server:
        yield server


@pytest.fixture
def server(started: ValkeyServer) -> ValkeyServer:
    """A Redis with a user for Headgate, without keys and scripts."""
    with Redis.from_url(started.url) as admin:
        admin.flushall()
        admin.script_flush()
        admin.execute_command(
            "ACL", "SETUSER", "headgate", "reset", "on", f">{PASSWORD}", "-@all", *RULES
        )
    return started


@asynccontextmanager
async def tls_in_front_of(server: ValkeyServer, path: Path) -> AsyncIterator[int]:
    """Take connections with TLS and pass them on; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_redis = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pump(reader, to_redis[1]), pump(to_redis[0], writer))

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield proxy.sockets[0].getsockname()[1]
    finally:
        proxy.close()


async def answer_at(url: str) -> object:
    """What a limiter with that address answers to a request."""
    opened = Opened()
    try:
        limiter = opened.redis(url, SystemClock(), server_time=True)
        return await limiter.acquire(STRAVA, ask(), grant_id="grant_1")
    finally:
        await opened.close()


def address(port: int, path: Path, *, password: str = PASSWORD) -> str:
    trusted = quote(str(path), safe="")
    return f"rediss://headgate:{password}@localhost:{port}/0?ssl_ca_certs={trusted}"


@pytest.mark.security(26)
async def test_it_counts_over_tls_as_a_user_who_may_do_little(
    server: ValkeyServer, tmp_path: Path
) -> None:
    path = certificate(tmp_path, "localhost")
    async with tls_in_front_of(server, path) as port:
        assert isinstance(await answer_at(address(port, path)), Granted)

    with Redis.from_url(server.url) as admin:
        assert admin.keys("{headgate}:budget:*")


@pytest.mark.security(26)
async def test_the_user_may_nothing_else(server: ValkeyServer) -> None:
    with Redis.from_url(server.url, username="headgate", password=PASSWORD) as client:
        for command in ("FLUSHALL", "GET another:key", "KEYS *", "CONFIG GET *"):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command.split())


@pytest.mark.parametrize("missing", [rule for rule in RULES if rule.startswith("+")])
async def test_every_rule_is_needed_and_a_missing_one_is_told(
    server: ValkeyServer, missing: str
) -> None:
    with Redis.from_url(server.url) as admin:
        admin.execute_command("ACL", "SETUSER", "headgate", missing.replace("+", "-"))

    answer = await answer_at(f"redis://headgate:{PASSWORD}@127.0.0.1:{server.port}/0")

    assert isinstance(answer, Unreachable)
    assert "permission" in answer.error
    assert PASSWORD not in answer.error


@pytest.mark.security(26)
@pytest.mark.parametrize("case", ["not trusted", "another name", "no TLS", "wrong password"])
async def test_a_server_that_cannot_be_trusted_is_not_asked(
    server: ValkeyServer, tmp_path: Path, case: str
) -> None:
    path = certificate(tmp_path, "elsewhere" if case == "another name" else "localhost")
    async with tls_in_front_of(server, path) as port:
        url = address(port, path)
        if case == "not trusted":
            url = url.partition("?")[0]
        elif case == "no TLS":
            url = url.partition("?")[0].replace("rediss://", "redis://")
        elif case == "wrong password":
            url = address(port, path, password="guess3d-w0rd")
        answer = await answer_at(url)

    assert isinstance(answer, Unreachable)
    assert PASSWORD not in answer.error and "guess3d" not in answer.error
    with Redis.from_url(server.url) as admin:
        assert not admin.keys("*")
