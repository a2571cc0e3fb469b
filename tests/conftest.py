"""Fixtures that every test may ask for."""

from collections.abc import Iterator

import pytest

from tests import servers


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[servers.PostgresServer]:
    """A PostgreSQL of this process's own, started when a test first asks for it."""
    with servers.postgres() as server:
        yield server
