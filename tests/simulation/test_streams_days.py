"""The streams of 700 activities, with live traffic, in virtual time: Strava's count is the verdict.

Two worker processes share one budget. The backfill is the system's own, and so is what hears of new
activities; the run is judged by what the emulated Strava has counted, and by the items in the end.
"""

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from headgate import App, Connection, JobState, Secret
from headgate.connectors.asgi_transport import AsgiTransport
from headgate.connectors.keys import KeyRing
from headgate.connectors.vault import AesVault
from headgate.flow import fetch_item
from headgate.model.item import Item
from headgate.model.states import JOB, ItemState
from headgate.ports.items import Items
from headgate.sandbox.strava.activity import Activity as Sport
from headgate.sandbox.strava.sandbox import Strava
from headgate.sandbox.strava.world import NewActivity
from headgate.simulation import SimulationLoop, run
from headgate.simulation.deployment import START, Deployment, StoreClock
from headgate.simulation.limiter_server import LimiterServer
from headgate.simulation.strava_days import DAY_S, LATENCY_S, LOOK_S, STEPS_MAX, STRAVA, WORKER
from headgate.simulation.virtual_clock import VirtualClock
from headgate.store.sql.sqlite import InlineSqliteDatabase
from headgate.systems.activity_streams import (
    COLLECTION,
    ActivityStreams,
    StravaEvent,
    activity_id,
    activity_streams,
    watching,
)
from tests.health import strava_api

USER = "athlete"
#: What the streams design plans for 700 activities.
SEED_PLAN_S = 3.5 * 3600
#: Nine quarters of an hour, with 80 reads in each but the last.
FLOOR_S = 8 * 900.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in a run."""

    activities: int = 700
    #: In place of a backfill: so much of a day, with live work alone.
    live_days: float | None = None
    #: New activities a day, at random times; each costs three reads.
    live_a_day: float = 40.0
    #: How often in a day a worker process is killed.
    crashes_a_day: float = 0.0
    #: How often both are, while they work on something new; between 0 and 1.
    crashes_live: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    #: By Strava's count.
    overshoot: int
    answers_429: int
    asked_for_streams: int
    #: Virtual seconds until the backfill, or the days, were done.
    backfill_s: float
    states: dict[str, int]
    #: Seconds from each event until the streams were here.
    live_s: list[float]
    #: Events whose activity nobody has read.
    unread: int
    crashes: int
    #: Of all items together.
    items_crashed: int
    retries: int


def play(seed: int, plan: Plan) -> Outcome:
    """One run of the plan. The same seed gives the same run."""
    with tempfile.TemporaryDirectory(prefix="headgate-streams-") as folder:
        file = Path(folder) / "days.db"
        return run(lambda loop: _play(loop, file, plan), seed=seed, step_limit=STEPS_MAX)


async def _play(loop: SimulationLoop, file: Path, plan: Plan) -> Outcome:
    clock = VirtualClock(loop)
    strava = Strava(clock, activities=plan.activities, stream_points=2)
    syncs = activity_streams(strava_api())
    deployment = Deployment(loop, file, syncs, worker=WORKER)
    deployment.limiter = LimiterServer(StoreClock(loop, deployment.faults))
    deployment.transport = AsgiTransport({STRAVA: strava}, clock, latency_s=LATENCY_S)
    deployment.vault = AesVault(KeyRing.for_demo(), loop.random("nonces"))
    deployment.migrate()
    app = App(
        InlineSqliteDatabase(file, StoreClock(loop, deployment.faults)),
        syncs=syncs,
        vault=deployment.vault,
        transport=deployment.transport,
        signal=deployment.signal,
        clock=VirtualClock(loop, START),
        rng=loop.random("app"),
    )
    async with app:
        grant = strava.grant()
        connection = await app.connections.hand_over(
            "strava", Secret(grant.access_token), user_id=USER, external_id=grant.user
        )
        for name in ("one", "two"):
            deployment.launch(name)
        return await _Days(loop, plan, strava, deployment, app, connection).live()


class _Days:
    """The days themselves."""

    def __init__(
        self,
        loop: SimulationLoop,
        plan: Plan,
        strava: Strava,
        deployment: Deployment,
        app: App,
        connection: Connection,
    ) -> None:
        self._plan = plan
        self._strava = strava
        self._deployment = deployment
        self._app = app
        self._connection = connection
        self._streams = ActivityStreams(app)
        self._traffic = loop.random("live traffic")
        self._trouble = loop.random("trouble")
        #: When each was told of.
        self._told: dict[str, float] = {}
        self._crashes = 0

    async def live(self) -> Outcome:
        began_s = self._app.clock.monotonic()
        beside = [
            asyncio.create_task(self._traffic_of_the_day()),
            asyncio.create_task(self._trouble_of_the_day()),
        ]
        if self._plan.live_days is not None:
            while self._app.clock.monotonic() < began_s + self._plan.live_days * DAY_S:
                await self._pass()
        else:
            backfill = (await self._streams.backfill(user_id=USER)).job
            while (await self._app.get(backfill.id)).state not in JOB.terminal:
                await self._pass()
        took_s = self._app.clock.monotonic() - began_s
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        while await self._app.jobs(
            states=[state for state in JobState if state not in JOB.terminal]
        ):
            await self._pass()
        return await self._outcome(took_s)

    async def _pass(self) -> None:
        await self._app.clock.sleep(LOOK_S)
        self._deployment.launch_crashed()

    async def _traffic_of_the_day(self) -> None:
        while True:
            await self._app.clock.sleep(self._traffic.expovariate(self._plan.live_a_day / DAY_S))
            await self._happens(self._strava.world.add(NewActivity()))

    async def _happens(self, sport: Sport) -> None:
        now = self._app.clock.now()
        self._told[activity_id(self._connection.id, sport.id)] = now.timestamp()
        event = StravaEvent(
            object_type="activity",
            object_id=sport.id,
            aspect_type="create",
            owner_id=sport.athlete_id,
            event_time=int(now.timestamp()),
        )
        await self._streams.heard(event)
        if self._trouble.random() < self._plan.crashes_live:
            await self._app.clock.sleep(self._trouble.uniform(0.0, 0.7))
            self._crash("one")
            self._crash("two")

    async def _trouble_of_the_day(self) -> None:
        while self._plan.crashes_a_day:
            await self._app.clock.sleep(self._trouble.expovariate(self._plan.crashes_a_day / DAY_S))
            self._crash(self._trouble.choice(("one", "two")))

    def _crash(self, name: str) -> None:
        host = self._deployment.processes[name].host
        if not host.crashed:
            host.crash()
            self._crashes += 1

    async def _outcome(self, took_s: float) -> Outcome:
        found: list[Item] = []
        while page := await self._app.items.list_items(
            COLLECTION, limit=500, after=found[-1].id if found else None
        ):
            found += page
        live = [item for item in found if item.id in self._told]
        return Outcome(
            overshoot=self._strava.meter.overshoot(),
            answers_429=self._strava.requests.count(status=429),
            asked_for_streams=self._strava.requests.count(path="/api/v3/activities/{id}/streams"),
            backfill_s=took_s,
            states={
                state.value: count
                for state in ItemState
                if (count := sum(item.state is state for item in found))
            },
            live_s=[item.updated_at.timestamp() - self._told[item.id] for item in live],
            unread=len(self._told) - len(live),
            crashes=self._crashes,
            items_crashed=sum(item.crashes for item in found),
            retries=sum(item.retry_count for item in found),
        )


def test_700_activities_are_fetched_in_hours_while_new_ones_come_at_once() -> None:
    # When a history of 700 activities is fetched while new ones come in
    outcome = play(1, Plan())

    # Then everything has ended, each with one request, and none was refused
    assert outcome.states.keys() == {"success", "unavailable"}
    assert sum(outcome.states.values()) == 700 + len(outcome.live_s)
    assert outcome.asked_for_streams == outcome.states["success"]
    assert (outcome.overshoot, outcome.answers_429, outcome.retries) == (0, 0, 0)
    assert outcome.unread == 0
    # And it took less than was planned, and about as little as the limits allow
    assert FLOOR_S <= outcome.backfill_s <= 1.2 * FLOOR_S < SEED_PLAN_S
    # And whatever happened meanwhile was here within seconds
    assert len(outcome.live_s) > 2
    assert max(outcome.live_s) < 10


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [2, 3])
def test_with_workers_that_are_killed_nothing_is_lost_or_too_much(seed: int) -> None:
    # When workers are killed all the time, and most of all while they work on what is new
    plan = Plan(activities=200, live_a_day=300, crashes_a_day=400, crashes_live=0.7)
    outcome = play(seed, plan)

    # Then everything has ended all the same, and nobody's death was taken for a failure
    assert outcome.crashes > 10 and outcome.items_crashed > 10
    assert outcome.states.keys() == {"success", "unavailable"}
    assert sum(outcome.states.values()) == 200 + len(outcome.live_s)
    assert (outcome.overshoot, outcome.answers_429, outcome.retries) == (0, 0, 0)
    assert outcome.unread == 0
    # And what was new was here as soon as a dead worker can be told from a slow one
    assert len(outcome.live_s) > 2
    assert max(outcome.live_s) < 300
    # What a dead worker had asked for is asked for again, and nothing else is.
    again = outcome.asked_for_streams - outcome.states["success"]
    assert 0 <= again <= outcome.crashes


LIVE_ALONE = Plan(activities=0, live_days=0.125, live_a_day=300, crashes_a_day=50, crashes_live=0.7)


@pytest.mark.timeout(300)
def test_with_live_work_alone_and_workers_that_are_killed_no_event_is_lost() -> None:
    outcome = play(2, LIVE_ALONE)

    # There is no backfill to find what live work has left behind.
    assert outcome.crashes > 30
    assert (outcome.unread, outcome.states) == (0, {"success": len(outcome.live_s)})
    assert len(outcome.live_s) > 25
    assert max(outcome.live_s) < 600
    assert (outcome.overshoot, outcome.answers_429, outcome.retries) == (0, 0, 0)


@pytest.mark.timeout(300)
def test_without_the_last_look_some_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given jobs that never doubt that their worker is alive, nor see what others hold
    async def nothing(items: Items, item_ids: Iterable[str]) -> Sequence[Item]:
        return ()

    monkeypatch.setattr(watching, "PROMPT", timedelta(days=365))
    monkeypatch.setattr(fetch_item, "_others", nothing)

    # Then what a dead worker held is left behind, by this very run
    outcome = play(2, LIVE_ALONE)
    assert outcome.unread or outcome.states.get("pending")
