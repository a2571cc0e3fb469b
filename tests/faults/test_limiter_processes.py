"""Real processes that hammer one budget: the provider's own count never goes over the limit."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headgate.base.clock import SystemClock
from headgate.store.sql.engine.postgres import PostgresDatabase
from tests import limiters, stores
from tests.faults.limiter_worker import HAMMERED, SHORT_LEASE
from tests.faults.provider import CountingProvider, counting_provider
from tests.processes import Process

[SHORT, ROLLING] = HAMMERED.limits
#: The least that a window must have seen for its count to prove anything.
BUSY = SHORT.amount * 3 // 4


class Worker(Process):
    """One worker process, and what it says."""

    async def says(self, word: str) -> None:
        """Wait until it says that."""
        await asyncio.to_thread(self.wait_for_line, word)

    async def stop(self) -> None:
        """Let it end in its own time; it must end well."""
        self.stdin.close()
        assert await asyncio.to_thread(self.wait) == 0


class Crew:
    """The worker processes of one test."""

    def __init__(self, provider: CountingProvider, backend: dict[str, str]) -> None:
        self._environment = {**os.environ, **backend, "PROVIDER": str(provider.port)}
        self.workers: list[Worker] = []

    async def start(self, budget: str, **more: str) -> Worker:
        """Start one, and wait until it works."""
        environment = {**self._environment, "BUDGET": budget, **more}
        worker = Worker("tests.faults.limiter_worker", environment=environment)
        self.workers.append(worker)
        await worker.says("ready")
        return worker

    async def stop(self) -> None:
        """Let all that still run end, well."""
        for each in self.workers:
            if each.poll() is None:
                await each.stop()


@pytest.fixture
async def provider() -> AsyncIterator[CountingProvider]:
    async with counting_provider() as made:
        yield made


@pytest.fixture(params=["postgres", "redis"])
def backend(request: pytest.FixtureRequest, store_url: str) -> dict[str, str]:
    """Where the budget is kept: by the server's clock in either case."""
    if request.param == "postgres":
        return {"DATABASE": store_url}
    url: str = request.getfixturevalue("valkey_url")
    limiters.flush(url)
    return {"DATABASE": store_url, "REDIS": url}


@asynccontextmanager
async def crew_of(provider: CountingProvider, backend: dict[str, str]) -> AsyncIterator[Crew]:
    """A crew that is gone afterwards."""
    made = Crew(provider, backend)
    try:
        yield made
    finally:
        for each in made.workers:
            each.end()


@pytest.fixture
async def crew(
    provider: CountingProvider, backend: dict[str, str], store_url: str
) -> AsyncIterator[Crew]:
    async with stores.opened(PostgresDatabase(store_url, SystemClock())):
        pass
    async with crew_of(provider, backend) as made:
        yield made


def busy_windows(provider: CountingProvider) -> int:
    return sum(count >= BUSY for count in provider.in_windows(SHORT.seconds).values())


def assert_within_limits(provider: CountingProvider) -> None:
    assert max(provider.in_windows(SHORT.seconds).values()) <= SHORT.amount
    assert provider.in_any(ROLLING.seconds) <= ROLLING.amount
    assert HAMMERED.slots is not None
    assert provider.at_once_max <= HAMMERED.slots


@pytest.mark.fault(19)
async def test_processes_that_hammer_one_budget_never_overrun_it_whatever_their_clocks_say(
    provider: CountingProvider, crew: Crew
) -> None:
    # Given four processes before one budget, of which one believes it to be half a minute earlier
    # and one later; the first begins alone, as every deployment once has
    await (await crew.start("hammered")).says("Granted")
    for skew_s in ("0", "-30", "30"):
        await crew.start("hammered", SKEW_S=skew_s)

    # When they send whatever they are granted, over several windows that are all but full
    await provider.until(lambda: busy_windows(provider) >= 2 and len(provider.by_process) == 4)
    for each in crew.workers:
        await each.says("Exhausted")
    await crew.stop()

    # Then the provider has never counted one too many
    assert_within_limits(provider)


@pytest.mark.parametrize(
    "backend", ["postgres", pytest.param("redis", marks=pytest.mark.thorough)], indirect=True
)
async def test_a_worker_killed_after_its_grant_costs_a_request_and_not_the_limit(
    provider: CountingProvider, crew: Crew
) -> None:
    # Given a worker that dies with a grant in its hands, and with it slots that nobody gives back
    dying = await crew.start(SHORT_LEASE.source, CRASH_AFTER="30")
    assert await asyncio.to_thread(dying.wait) == -signal.SIGKILL
    sent_by_dead = provider.by_process.total()
    assert sent_by_dead < 30

    # When others go on, as soon as the leases of its slots are over
    for _ in range(2):
        await crew.start(SHORT_LEASE.source)
    await provider.until(lambda: busy_windows(provider) >= 2 and len(provider.by_process) == 3)
    await crew.stop()

    # Then the limit held, with what died counted
    assert max(provider.in_windows(SHORT.seconds).values()) <= SHORT_LEASE.limits[0].amount


async def test_processes_on_one_sqlite_file_share_one_budget(
    provider: CountingProvider, tmp_path: Path
) -> None:
    # Given two processes on one file
    path = await stores.migrated_sqlite(tmp_path / "shared.db")
    async with crew_of(provider, {"DATABASE": f"sqlite:///{path}"}) as crew:
        for _ in range(2):
            await crew.start("hammered")

        # When both spend
        await provider.until(lambda: busy_windows(provider) >= 2 and len(provider.by_process) == 2)
        await crew.stop()

    # Then neither has more than what the other left
    assert_within_limits(provider)
