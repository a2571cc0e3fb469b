"""Real workers that die or are only frozen, with leases so long that nobody can wait for them."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import App
from tests.faults.harness import WAIT_S_MAX, Site, site
from tests.processes import once_on

#: Longer than a test waits: what ends at all did not wait for a lease.
LEASE_S = 2 * WAIT_S_MAX
LOOK_S = 0.5


@pytest.fixture
def place(tmp_path: Path, address: str) -> Iterator[Site]:
    """Workers whose leases do not end in the time of a test."""
    with site(tmp_path, address, lease_s=LEASE_S, chunk_s=0.2, look_s=LOOK_S) as made:
        yield made


@pytest.mark.fault(3)
async def test_others_go_on_at_once_with_the_jobs_of_a_worker_that_was_killed(
    place: Site,
) -> None:
    # Given a worker with jobs in its hands, and another beside it
    ids = await place.submit(6)
    killed = place.start()
    await asyncio.to_thread(killed.wait_for_line, "reading")
    place.start()

    # When the first is killed, then the other finishes everything
    killed.send_signal(signal.SIGKILL)
    jobs = await place.wait(ids)
    await place.judge(jobs)
    assert any(job.summary.crashes for job in jobs)


@once_on("sqlite")
@pytest.mark.fault(3)
async def test_a_worker_that_is_started_after_a_kill_goes_on_at_once_and_clears_up(
    place: Site,
) -> None:
    # Given a worker that was killed with jobs in its hands, alone
    ids = await place.submit(4)
    killed = place.start()
    await asyncio.to_thread(killed.wait_for_line, "reading")
    killed.send_signal(signal.SIGKILL)
    await asyncio.to_thread(killed.wait)

    # When it is started anew, then it finishes everything
    again = place.start()
    jobs = await place.wait(ids)
    await place.judge(jobs)
    assert any(job.summary.crashes for job in jobs)

    # And when it stops, then no worker is on record
    again.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(again.wait) == 0
    async with App(place.address) as app:
        assert list(await app.workers()) == []


@once_on("postgres")
@pytest.mark.fault(4)
async def test_a_worker_that_is_only_frozen_keeps_its_claims(place: Site) -> None:
    # Given a worker that is frozen with jobs in its hands
    ids = await place.submit(2)
    frozen = place.start()
    await asyncio.to_thread(frozen.wait_for_line, "reading")
    await place.freeze(frozen)

    # When another has found a third worker dead, at whose claims it looked in the same way
    more = await place.submit(2, first=2)
    killed = place.start()
    await asyncio.to_thread(killed.wait_for_line, "reading")
    killed.send_signal(signal.SIGKILL)
    place.start()
    await place.wait(more)

    # Then the frozen one still has its jobs, and ends them when it wakes
    frozen.send_signal(signal.SIGCONT)
    jobs = await place.wait(ids)
    await place.judge([*jobs, *await place.wait(more)])
    assert [job.summary.crashes for job in jobs] == [0, 0]
