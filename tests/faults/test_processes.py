"""Real processes, killed, stopped and cut off: nothing lost, nothing accepted twice."""

import asyncio
import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers, stores
from tests.faults.harness import Site, site
from tests.faults.worker import POINTS
from tests.processes import once_on

#: So many that four workers have a share each.
JOBS = 24


@pytest.fixture
def place(tmp_path: Path, address: str) -> Iterator[Site]:
    """Workers and a ledger around the database."""
    with site(tmp_path, address) as made:
        yield made


#: At each point on SQLite, and between two commits on Postgres; the rest is thorough.
KILLED = [
    *(("sqlite", point) for point in POINTS),
    ("postgres", "before_settle"),
    *(
        pytest.param("postgres", point, marks=pytest.mark.thorough)
        for point in POINTS
        if point != "before_settle"
    ),
]


@pytest.mark.parametrize(("address", "point"), KILLED, indirect=["address"])
@pytest.mark.fault(1, 2, 3)
async def test_a_worker_killed_at_any_point_loses_nothing(place: Site, point: str) -> None:
    # Given two jobs, and a worker that dies the second time it comes to the point
    ids = await place.submit(2)
    dying = place.start(crash_at=f"{point}:2" if point != "after_claim" else point)
    assert await asyncio.to_thread(dying.wait) == -signal.SIGKILL

    # When another takes over
    place.start()
    jobs = await place.wait(ids)

    # Then every chunk was committed once, and the ledger accepted each once
    await place.judge(jobs)
    assert sum(job.summary.crashes for job in jobs) <= 2
    assert all(job.summary.errors == 0 for job in jobs)


@once_on("sqlite")
@pytest.mark.fault(4)
async def test_a_worker_stopped_past_its_lease_changes_nothing_when_it_wakes(place: Site) -> None:
    # Given a worker that is frozen in the middle of a chunk
    ids = await place.submit(2)
    frozen = place.start()
    await asyncio.to_thread(frozen.wait_for_line, "reading")
    await place.freeze(frozen)

    # When another has done everything, and the first goes on
    place.start()
    jobs = await place.wait(ids)
    frozen.send_signal(signal.SIGCONT)
    more = await place.submit(1)
    frozen_again = await place.wait(more)

    # Then what it had in its hands was refused, and it works on
    assert await place.wait(ids) == jobs
    await place.judge([*jobs, *frozen_again])
    assert frozen.poll() is None


@once_on("sqlite")
@pytest.mark.fault(36)
async def test_workers_told_to_stop_hand_over_without_a_crash(place: Site) -> None:
    # Given many jobs, and workers that are stopped one after another while they work
    ids = await place.submit(12)
    for _ in range(3):
        worker = place.start()
        await asyncio.to_thread(worker.wait_for_line, "reading")
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait) == 0

    # When one is left to finish
    place.start()
    jobs = await place.wait(ids)

    # Then nobody counted as crashed, and nothing was sent twice
    await place.judge(jobs)
    assert all(job.summary.crashes == 0 for job in jobs)
    assert place.sent() == 6 * 4


async def test_four_workers_share_the_jobs_and_read_each_day_once(
    tmp_path: Path, postgres_address: str
) -> None:
    # Given four workers with nothing to do
    with site(tmp_path, postgres_address, lease_s=30, chunk_s=0.02) as place:
        workers = [place.start() for _ in range(4)]

        # When many jobs come at once
        ids = await place.submit(JOBS, days=2)
        jobs = await place.wait(ids)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait) == 0
        reads = [sorted(worker.stdout) for worker in workers]

        # Then every day was read once, by one of them, and several had a share
        await place.judge(jobs, days=2)
        assert len(set(itertools.chain(*reads))) == sum(map(len, reads)) == JOBS * 2
        assert len([mine for mine in reads if mine]) > 1
        assert all(job.summary.crashes == 0 for job in jobs)
        assert place.sent() == JOBS // 2 * 2


@once_on("sqlite")
@pytest.mark.fault(37)
async def test_two_applications_on_one_database_run_their_own_jobs_through_crashes(
    place: Site,
) -> None:
    # Given two applications with different syncs, and jobs of both in one line
    ids = await place.submit(8)
    workers = {sync: [place.start(syncs=sync)] for sync in ("kept", "sent")}

    # When a worker of each is killed in the middle of a chunk, and another started
    for sync, of in workers.items():
        await asyncio.to_thread(of[0].wait_for_line, "reading")
        of[0].send_signal(signal.SIGKILL)
        of.append(place.start(syncs=sync))
    jobs = await place.wait(ids)

    # Then everything is done, and nobody has had a job in hand that it could not run
    await place.judge(jobs)
    for job in jobs:
        assert job.worker is not None
        assert any(f"-{worker.pid}_" in job.worker for worker in workers[job.sync])
        assert job.token <= job.steps + 2 * job.summary.crashes + 1


@pytest.mark.thorough
@pytest.mark.fault(28)
async def test_postgres_restarted_under_load_loses_nothing(tmp_path: Path) -> None:
    # Given two workers under load on a Postgres of their own
    with servers.postgres(fsync=True) as server:
        address = await stores.migrated_postgres(server.url, "restarted")
        with site(tmp_path, address, lease_s=5.0, chunk_s=0.3) as place:
            # Both are up before there is work: else one might do it all.
            workers = [place.start(), place.start()]
            ids = await place.submit(JOBS // 2, days=5)
            await asyncio.to_thread(workers[0].wait_for_line, "reading")

            # When the server is restarted twice, once without warning
            await asyncio.to_thread(server.restart, "fast")
            await asyncio.to_thread(workers[1].wait_for_line, "reading")
            await asyncio.to_thread(server.restart, "immediate")

            # Then the same workers finish everything
            jobs = await place.wait(ids)
            await place.judge(jobs, days=5)
            assert [worker.poll() for worker in workers] == [None, None]
