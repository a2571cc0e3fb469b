"""The test servers: they answer, survive a restart, and leave nothing behind."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests import servers


async def query(server: servers.PostgresServer, statement: str) -> object:
    connection = await asyncpg.connect(server.url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[servers.PostgresServer]:
    """A server of these tests' own, because they stop it."""
    with servers.postgres() as server:
        yield server


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_keeps_data_and_address(
    postgres_server: servers.PostgresServer, mode: servers.StopMode
) -> None:
    url = postgres_server.url
    await query(postgres_server, f"create table kept_{mode} as select 7 as number")

    await asyncio.to_thread(postgres_server.restart, mode)

    assert postgres_server.url == url
    assert await query(postgres_server, f"select number from kept_{mode}") == 7


async def test_a_stopped_server_refuses_connections_until_it_starts(
    postgres_server: servers.PostgresServer,
) -> None:
    await asyncio.to_thread(postgres_server.stop)
    try:
        with pytest.raises(ConnectionRefusedError):
            await query(postgres_server, "select 1")
    finally:
        await asyncio.to_thread(postgres_server.start)
    assert await query(postgres_server, "select 1") == 1


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """An empty folder that the server's user may enter, unlike pytest's own `tmp_path`."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.servers
async def test_an_interrupt_stops_and_removes_the_server(
    readable_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given servers that keep their files where we can count them
    programs = servers.find_programs()
    monkeypatch.setattr(servers, "find_programs", lambda: programs)
    monkeypatch.setattr(tempfile, "tempdir", str(readable_folder))

    # When the body is interrupted
    with pytest.raises(KeyboardInterrupt), servers.postgres(fsync=True) as server:
        assert await query(server, "show fsync") == "on"
        assert len(list(readable_folder.iterdir())) == 1
        raise KeyboardInterrupt

    # Then nothing listens and nothing is left
    with pytest.raises(ConnectionRefusedError):
        await query(server, "select 1")
    assert list(readable_folder.iterdir()) == []
