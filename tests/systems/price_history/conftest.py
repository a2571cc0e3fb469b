"""Servers that receive prices, for the tests of this folder."""

from collections.abc import AsyncIterator

import pytest

from tests.systems.price_history.receivers import Receiver, receiving


@pytest.fixture
async def receiver(address: str) -> AsyncIterator[Receiver]:
    """A server on each database in turn."""
    async with receiving(address) as receiver:
        yield receiver


@pytest.fixture
async def local(sqlite_address: str) -> AsyncIterator[Receiver]:
    """A server on SQLite, for what is the same on both."""
    async with receiving(sqlite_address) as receiver:
        yield receiver
