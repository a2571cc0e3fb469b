"""Days of activity streams against the Strava sandbox, in virtual time.

Two worker processes run the system's own syncs on Strava's connector, and share one budget. An
athlete's history is fetched in the cold lane while new activities come in at random and are read in
the hot one. Processes die, the limiter forgets, clocks are wrong: as the scenario says. The sandbox
counts what arrives by its own clock, and its count is the verdict.

`backfill.py` measures these runs; a test holds them to what is promised.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from urllib.parse import parse_qsl, urlsplit

import msgspec

from headgate import App, JobState, Lane, LaneSize, Secret, WorkerSettings
from headgate.connectors.strava import strava
from headgate.connectors.strava.api import BUDGET, NAME, URL
from headgate.model.item import Item
from headgate.model.states import JOB, ItemState
from headgate.ports.transport import Request
from headgate.secrets.keys import KeyRing
from headgate.secrets.vault import AesVault
from headgate.store.sql.engine.sqlite import InlineSqliteDatabase
from headgate.systems.activity_streams.events import StravaEvent
from headgate.systems.activity_streams.names import COLLECTION, LIVE, activity_id
from headgate.systems.activity_streams.service import ActivityStreams
from headgate.systems.activity_streams.syncs import activity_streams
from headgate.testing import SimulationLoop, VirtualClock, run
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import Connection, Job
from headgate_sandbox.kit.windows import Tally
from headgate_sandbox.strava import access
from headgate_sandbox.strava.sandbox import Strava
from headgate_sandbox.strava.world import NewActivity
from tests.simulation.deployment import START, Deployment, StoreClock
from tests.simulation.limiter_server import LimiterServer

WINDOW_S = 900.0
DAY_S = 86_400.0
#: There and back.
LATENCY_S = 0.2
#: How often the run looks whether it is over, and whether a process has died.
LOOK_S = 30.0
STEPS_MAX = 50_000_000
#: Items that are read at once when the run is over.
ITEMS_AT_ONCE = 500
USER = "athlete"
PROCESSES = ("one", "two")
#: Where the athlete comes back to from Strava's page.
BACK = "https://app.example/connected"
STREAMS_PATH = "/api/v3/activities/{id}/streams"
ACTIVE = [state for state in JobState if state not in JOB.terminal]
WORKER = WorkerSettings(
    lanes={
        Lane.HOT: LaneSize(concurrency=8, slice_s=5.0),
        Lane.COLD: LaneSize(concurrency=2, slice_s=60.0),
    },
    lease_s=60.0,
)

#: What may be read in a quarter of an hour, and what backfill leaves of it where that is fixed.
READS_15MIN, RESERVE = BUDGET.limits[0].amount, BUDGET.limits[0].reserve
#: A new activity's details, laps and streams.
LIVE_READS = 3


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in a run."""

    #: The athlete's history, which a backfill fetches; 0: there is live work alone.
    activities: int = 700
    #: New activities a day, at random times.
    live_a_day: float = 40.0
    #: When the run ends; None: when the backfill is done.
    days: float | None = None
    #: Whether the reserve shrinks as a window runs out.
    decay: bool = False
    #: How often in a day the limiter comes back empty, and a process is killed.
    forgets_a_day: float = 0.0
    crashes_a_day: float = 0.0
    #: How often both processes are killed while they work on something new; between 0 and 1.
    crashes_live: float = 0.0
    #: How far the processes' clocks are off: one is ahead, the other behind.
    skew_s: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a run led to."""

    #: By Strava's count: requests beyond a limit, and those that it refused.
    overshoot: int
    answers_429: int
    #: Each quarter of an hour in which something was read.
    windows: tuple[Tally, ...]
    stream_requests: int
    #: Virtual seconds that the backfill took; None if it was not done.
    backfill_s: float | None
    #: How many activities' streams are in each state.
    states: dict[str, int]
    #: For each new activity, the seconds from its event until its streams were here.
    live_s: list[float]
    #: New activities whose streams were not here when no live job was left.
    missing: int
    crashes: int
    #: How often the limiter came back empty.
    forgotten: int
    #: Of all streams together: workers that died on them, and failures.
    items_crashed: int
    retries: int

    @property
    def reads(self) -> int:
        """Everything that was read, by Strava's count."""
        return sum(window.used for window in self.windows)

    @property
    def utilisation(self) -> float:
        """Used ÷ allowed, over the windows that had work to do from edge to edge."""
        whole = self.windows[1:-1] or self.windows
        return sum(window.used for window in whole) / (READS_15MIN * len(whole))

    def least_s(self, reads_a_window: int) -> float:
        """The least time for what is not live: whole windows, and the rest at backfill's pace.

        That pace spreads requests as if all of a window were backfill's own.
        """
        whole, rest = divmod(self.reads - LIVE_READS * len(self.live_s) - 1, reads_a_window)
        return (whole + rest / READS_15MIN) * WINDOW_S


def play(seed: int, scenario: Scenario) -> Outcome:
    """One run of the scenario. The same seed gives the same run."""
    with tempfile.TemporaryDirectory(prefix="headgate-days-") as folder:
        file = Path(folder) / "days.db"
        return run(lambda loop: _play(loop, file, scenario), seed=seed, step_limit=STEPS_MAX)


async def _play(loop: SimulationLoop, file: Path, scenario: Scenario) -> Outcome:
    sandbox = Strava(VirtualClock(loop), activities=scenario.activities, stream_points=2)
    syncs = activity_streams(
        strava(
            client_id=access.CLIENT_ID,
            client_secret=Secret(access.CLIENT_SECRET),
            redirect_uris=(BACK,),
            budget=msgspec.structs.replace(BUDGET, reserve_decay=scenario.decay),
        )
    )
    deployment = Deployment(loop, file, syncs, worker=WORKER)
    store_clock = StoreClock(loop, deployment.faults)
    limiter = deployment.limiter = LimiterServer(store_clock)
    transport = AsgiTransport({URL: sandbox}, VirtualClock(loop), latency_s=LATENCY_S)
    deployment.transport = transport
    deployment.vault = AesVault(KeyRing.for_demo(), loop.random("nonces"))
    deployment.migrate()
    app = App(
        InlineSqliteDatabase(file, store_clock),
        syncs=syncs,
        vault=deployment.vault,
        transport=transport,
        signal=deployment.signal,
        clock=VirtualClock(loop, START),
        rng=loop.random("app"),
    )
    async with app:
        connection = await _connect(app, transport)
        for name, sign in zip(PROCESSES, (1, -1), strict=True):
            deployment.launch(name).host.skew_s = sign * scenario.skew_s
        days = _Days(loop, scenario, sandbox, deployment, limiter, app, connection)
        return await days.live()


async def _connect(app: App, browser: AsgiTransport) -> Connection:
    """The athlete connects the account, on Strava's page and back."""
    who = {"user_id": USER, "session": "a browser", "redirect_uri": BACK}
    page = await app.connections.start(NAME, **who)
    back = (await browser.send(Request(method="GET", url=page))).headers.get("location") or ""
    return await app.connections.finish(query=dict(parse_qsl(urlsplit(back).query)), **who)


class _Days:
    """The days themselves: what happens in them, and when they end."""

    def __init__(
        self,
        loop: SimulationLoop,
        scenario: Scenario,
        sandbox: Strava,
        deployment: Deployment,
        limiter: LimiterServer,
        app: App,
        connection: Connection,
    ) -> None:
        self._scenario = scenario
        self._sandbox = sandbox
        self._deployment = deployment
        self._limiter = limiter
        self._app = app
        self._connection = connection
        self._clock = app.clock
        self._streams = ActivityStreams(app)
        self._traffic = loop.random("live traffic")
        self._trouble = loop.random("trouble")
        #: When the event of each new activity came, by the activity's id.
        self._events: dict[str, float] = {}
        self._crashes = 0
        self._forgotten = 0

    async def live(self) -> Outcome:
        """Let the days pass, then let live work come to its end."""
        scenario = self._scenario
        backfill = None
        if scenario.activities:
            backfill = (await self._streams.backfill(user_id=USER)).job
        beside = [
            asyncio.create_task(self._at_random(times_a_day, draw, happen))
            for times_a_day, draw, happen in (
                (scenario.live_a_day, self._traffic, self._new_activity),
                (scenario.forgets_a_day, self._trouble, self._forget),
                (scenario.crashes_a_day, self._trouble, self._crash_one),
            )
        ]
        while not await self._is_over(backfill):
            await self._pass()
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        while await self._app.jobs.list(sync=LIVE, states=ACTIVE, limit=1):
            await self._pass()
        return await self._outcome(backfill)

    async def _is_over(self, backfill: Job | None) -> bool:
        if self._scenario.days is not None:
            return self._clock.monotonic() >= self._scenario.days * DAY_S
        assert backfill is not None, "without a backfill the days must be numbered"
        return (await self._app.jobs.get(backfill.id)).state in JOB.terminal

    async def _pass(self) -> None:
        await self._clock.sleep(LOOK_S)
        self._deployment.launch_crashed()

    async def _at_random(
        self, times_a_day: float, draw: Random, happen: Callable[[], Awaitable[None]]
    ) -> None:
        """Again and again, as often as that on average."""
        while times_a_day:
            await self._clock.sleep(draw.expovariate(times_a_day / DAY_S))
            await happen()

    async def _new_activity(self) -> None:
        activity = self._sandbox.world.add(NewActivity())
        now_s = self._clock.now().timestamp()
        self._events[activity_id(self._connection.id, activity.id)] = now_s
        await self._streams.handle_event(
            StravaEvent(
                object_type="activity",
                object_id=activity.id,
                aspect_type="create",
                owner_id=activity.athlete_id,
                event_time=int(now_s),
            )
        )
        if self._trouble.random() < self._scenario.crashes_live:
            # Anywhere in its reads, or just after them.
            await self._clock.sleep(self._trouble.uniform(0.0, LIVE_READS * LATENCY_S + 0.1))
            for name in PROCESSES:
                self._crash(name)

    async def _forget(self) -> None:
        self._limiter.restart_empty()
        self._forgotten += 1

    async def _crash_one(self) -> None:
        """At a random moment: between a grant and its request as well as anywhere else."""
        self._crash(self._trouble.choice(PROCESSES))

    def _crash(self, name: str) -> None:
        host = self._deployment.processes[name].host
        if not host.crashed:
            host.crash()
            self._crashes += 1

    async def _outcome(self, backfill: Job | None) -> Outcome:
        found = await self._items()
        live_s = [
            item.updated_at.timestamp() - self._events[item.id]
            for item in found
            if item.id in self._events and item.state is ItemState.SUCCESS
        ]
        ended = None if backfill is None else await self._app.jobs.get(backfill.id)
        took = None
        if ended is not None and ended.finished_at is not None:
            took = ended.finished_at - ended.created_at
        counts = {state: sum(item.state is state for item in found) for state in ItemState}
        return Outcome(
            overshoot=self._sandbox.meter.overshoot(),
            answers_429=self._sandbox.requests.count(status=429),
            windows=tuple(self._sandbox.meter.tallies("read_15min")),
            stream_requests=self._sandbox.requests.count(path=STREAMS_PATH),
            backfill_s=None if took is None else took.total_seconds(),
            states={state.value: count for state, count in counts.items() if count},
            live_s=live_s,
            missing=len(self._events) - len(live_s),
            crashes=self._crashes,
            forgotten=self._forgotten,
            items_crashed=sum(item.crashes for item in found),
            retries=sum(item.retry_count for item in found),
        )

    async def _items(self) -> list[Item]:
        """The streams of every activity that is known."""
        found: list[Item] = []
        while page := await self._app.items.list(
            COLLECTION, limit=ITEMS_AT_ONCE, after=found[-1].id if found else None
        ):
            found += page
        return found
