"""Putting right a crowd: in batches, so many in one go, and the rest in the next."""

from typing import Any

import pytest

from headgate import App, Chunk, Context, JobState, RetryPolicy, Sync, Transient
from headgate.flow.leases import recover, rescue
from tests.flow.sources import taking
from tests.worlds import ScriptedSource, World, with_dying_workers

CROWD = [f"sync-{number}" for number in range(5)]
#: Two batches of two in the first sweep; then one is left for the second.
SWEEPS = [[2, 2], [1]]


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescue, "BATCH_MAX", 2)
    monkeypatch.setattr(recover, "BATCH_MAX", 2)
    monkeypatch.setattr(rescue, "ROUNDS_MAX", 2)


def watched(world: World, app: App, monkeypatch: pytest.MonkeyPatch) -> dict[float, list[int]]:
    """How many jobs are put right in one transaction, by the moment: one sweep takes no time."""
    sizes: dict[float, list[int]] = {}
    sweep: Any = app._runtime.jobs.settle_many

    async def note(changes: Any, *rest: Any) -> Any:
        sizes.setdefault(world.clock.monotonic(), []).append(len(changes))
        return await sweep(changes, *rest)

    monkeypatch.setattr(app._runtime.jobs, "settle_many", note)
    return sizes


async def submit_crowd(app: App) -> list[str]:
    made = [await app.jobs.submit(name, user_id=name) for name in CROWD]
    return [each.job.id for each in made]


@with_dying_workers
async def test_all_jobs_of_a_lost_worker_are_rescued(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a worker that dies with more jobs in hand than one sweep puts right
    syncs = [Sync(name=name, source=ScriptedSource(taking(10), name)) for name in CROWD]
    first, second = await world.app(*syncs), await world.app(*syncs)
    ids = await submit_crowd(first)
    host = world.loop.host("first")
    await host.spawn(first.supervisor().start())
    await world.clock.sleep(5)
    host.crash()
    await world.clock.sleep(1000)

    # When another worker comes
    sizes = watched(world, second, monkeypatch)
    await second.supervisor().start()
    jobs = [await world.until(second, each) for each in ids]

    # Then it has rescued every one of them, once
    assert list(sizes.values()) == SWEEPS
    assert [(job.state, job.summary.crashes) for job in jobs] == [(JobState.SUCCESS, 1)] * 5


@with_dying_workers
async def test_all_jobs_that_have_cooled_down_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given more providers that were down than one sweep puts right
    down = True

    async def read(ctx: Context) -> Chunk:
        if down:
            raise Transient
        # A provider that answers at once would call for the next sweep at once.
        await ctx.clock.sleep(10)
        return Chunk()

    hasty = RetryPolicy(errors_max=0, cooldown_s=600.0)
    app = await world.app(
        *(Sync(name=each, source=ScriptedSource(read, each), retry=hasty) for each in CROWD)
    )
    ids = await submit_crowd(app)
    worker = app.supervisor()
    await worker.start()
    for each in ids:
        await world.until(app, each, JobState.PAUSED)
    await worker.stop()
    down = False
    await world.clock.sleep(1000)

    # When a worker comes after the cool-down
    sizes = watched(world, app, monkeypatch)
    await app.supervisor().start()
    jobs = [await world.until(app, each) for each in ids]

    # Then it has let go on every one of them, once
    assert list(sizes.values()) == SWEEPS
    assert [job.state for job in jobs] == [JobState.SUCCESS] * 5


@with_dying_workers
async def test_a_rescuer_that_another_was_before_wakes_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a job of a lost worker that two rescuers have found
    app = await world.app(Sync(name=CROWD[0], source=ScriptedSource(taking(10), CROWD[0])))
    await app.jobs.submit(CROWD[0], user_id="ada")
    host = world.loop.host("lost")
    await host.spawn(app.supervisor().start())
    await world.clock.sleep(5)
    host.crash()
    await world.clock.sleep(1000)
    found = await app._runtime.jobs.list_expired(limit=10)
    assert len(found) == 1

    async def as_both_saw_it(*, limit: int) -> Any:
        return found

    monkeypatch.setattr(app._runtime.jobs, "list_expired", as_both_saw_it)
    announced: list[str] = []

    async def announce(topic: str, *_: object, **__: object) -> None:
        announced.append(topic)

    monkeypatch.setattr(app._runtime.signal, "announce", announce)

    # When both rescue it, then one does, and tells the lane
    assert [await recover.rescue_jobs(app._runtime) for _ in range(2)] == [1, 0]
    assert announced == ["lane.hot", "lane.cold"]
