"""Days of live work and backfill against the Strava sandbox, in virtual time.

Two worker processes share one budget. An athlete's history is fetched in the cold lane, one stream
a chunk, while new activities come in at random and are read in the hot lane: detail, laps, streams.
The sandbox counts what arrives by its own clock; its count is the verdict.
"""

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from headgate.base.errors import ActiveJobExists, NoData
from headgate.base.secret import Secret
from headgate.connectors.asgi_transport import AsgiTransport
from headgate.connectors.keys import KeyRing
from headgate.connectors.oauth import OAuth2
from headgate.connectors.rates import listed, together
from headgate.connectors.source import ApiSource
from headgate.connectors.vault import AesVault
from headgate.flow.connect import Connections
from headgate.flow.registry import Sync
from headgate.flow.submit import JobRequest, submit
from headgate.loops.lanes import LaneSize
from headgate.loops.supervisor import WorkerSettings
from headgate.model.budget import Budget, Limit
from headgate.model.job import Job, Lane
from headgate.model.record import Record
from headgate.model.states import JOB, JobState
from headgate.ports.connector import Chunk, Context
from headgate.ports.transport import Request
from headgate.sandbox.kit.windows import Tally
from headgate.sandbox.strava import access
from headgate.sandbox.strava.sandbox import Strava
from headgate.sandbox.strava.world import NewActivity
from headgate.simulation.deployment import Deployment, Process, StoreClock
from headgate.simulation.limiter_server import LimiterServer
from headgate.simulation.loop import SimulationLoop
from headgate.simulation.runner import run
from headgate.simulation.virtual_clock import VirtualClock

READS_15MIN = 100
READS_DAY = 1000
PER_PAGE = 200
DAY_S = 86_400.0
#: There and back.
LATENCY_S = 0.2
#: How often the run looks whether it is over, and whether a process has died.
LOOK_S = 30.0
STEPS_MAX = 50_000_000
USER = "athlete"
BUSY_S = 5.0
STRAVA = "https://www.strava.com"
#: Where the athlete comes back to from Strava's page.
BACK = "https://app.example/connected"
WORKER = WorkerSettings(
    lanes={
        Lane.HOT: LaneSize(concurrency=8, slice_s=5.0),
        Lane.COLD: LaneSize(concurrency=2, slice_s=60.0),
    },
    lease_s=60.0,
)


def strava_budget(*, decay: bool = False) -> Budget:
    """What Strava allows an application, with the reserve of the streams design.

    That design keeps 20 of a quarter of an hour. A day needs a reserve of its own, else backfill
    has spent it by noon; 240 are enough for 60 new activities.
    """
    return Budget(
        "strava",
        limits=[
            Limit(READS_15MIN, per="15min", only="read", reserve=20),
            Limit(READS_DAY, per="day", only="read", reserve=240),
            Limit(2 * READS_15MIN, per="15min"),
            Limit(2 * READS_DAY, per="day"),
        ],
        reserve_decay=decay,
    )


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in a run."""

    activities: int = 700
    #: New activities a day, at random times; each costs three reads.
    live_a_day: float = 0.0
    #: The run ends then, or when the backfill is done, if that is None.
    days: float | None = None
    decay: bool = False
    #: How often in a day the limiter comes back empty, and a process is killed.
    forgets_a_day: float = 0.0
    crashes_a_day: float = 0.0
    #: How far the processes' clocks are off.
    skew_s: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it, by the sandbox's count."""

    #: Requests beyond a limit.
    overshoot: int
    answers_429: int
    #: Of each quarter of an hour that had any work to do.
    windows: tuple[Tally, ...]
    #: Virtual seconds until every activity had its streams; None if it was not done.
    backfill_s: float | None
    fetched: int
    live_jobs: int
    live_done: int
    #: Live jobs that had to wait for the budget at least once.
    live_deferred: int
    crashes: int
    #: Times that the limiter came back empty.
    forgotten: int

    @property
    def utilisation(self) -> float:
        """Used ÷ allowed, over the windows that the backfill had to itself from edge to edge."""
        whole = self.windows[1:-1] or self.windows
        return sum(each.used for each in whole) / (READS_15MIN * len(whole))


class Listed(msgspec.Struct, frozen=True):
    """An activity in a list."""

    id: int


class Cursor(msgspec.Struct, frozen=True):
    """Where a backfill stands: the page it is at, and what of that page is still to be fetched."""

    page: int = 0
    todo: list[int] = []


class StravaReads(ApiSource):
    """Lists an athlete's activities and fetches the streams of each; or reads one that is new."""

    async def read(self, ctx: Context) -> Chunk:
        """One page of the list, one activity's streams, or a new activity with all it has."""
        new = ctx.options.get("activity")
        if new is not None:
            return await self._new_activity(ctx, str(new))
        cursor = msgspec.convert(ctx.cursor or {}, Cursor)
        if not cursor.todo:
            return await self._list(ctx, cursor.page + 1)
        record = await self._streams(ctx, cursor.todo[0])
        following = msgspec.structs.replace(cursor, todo=cursor.todo[1:])
        return Chunk(records=[record], cursor=msgspec.to_builtins(following))

    async def _list(self, ctx: Context, page: int) -> Chunk:
        wanted = {"page": page, "per_page": PER_PAGE}
        listed = (await ctx.http.get("/athlete/activities", wanted)).json(list[Listed])
        following = Cursor(page=page, todo=[each.id for each in listed])
        return Chunk(cursor=msgspec.to_builtins(following) if listed else None)

    async def _streams(self, ctx: Context, activity: int | str) -> Record:
        wanted = {"keys": "time,heartrate", "key_by_type": "true"}
        try:
            answer = await ctx.http.get(f"/activities/{activity}/streams", wanted)
        except NoData:
            return Record(f"streams:{activity}", {})
        return Record(f"streams:{activity}", {"channels": sorted(answer.json(dict[str, Any]))})

    async def _new_activity(self, ctx: Context, activity: str) -> Chunk:
        await ctx.http.get(f"/activities/{activity}")
        await ctx.http.get(f"/activities/{activity}/laps")
        return Chunk(records=[await self._streams(ctx, activity)])


def strava_source(*, decay: bool) -> StravaReads:
    """The sandbox's Strava, under Strava's own address."""
    return StravaReads(
        "strava",
        base_url=f"{STRAVA}/api/v3",
        auth=OAuth2(
            authorize_url=f"{STRAVA}/oauth/authorize",
            token_url=f"{STRAVA}/oauth/token",
            client_id=access.CLIENT_ID,
            client_secret=Secret(access.CLIENT_SECRET),
            scopes=("read", "activity:read_all"),
            scope_separator=",",
            redirect_uris=(BACK,),
        ),
        budget=strava_budget(decay=decay),
        counts=together(
            listed("X-ReadRateLimit-Usage", ("read 15min", "read day")),
            listed("X-RateLimit-Usage", ("15min", "day")),
        ),
        not_found=NoData,
    )


def play(seed: int, plan: Plan) -> Outcome:
    """One run of the plan. The same seed gives the same run."""
    with tempfile.TemporaryDirectory(prefix="headgate-days-") as folder:
        file = Path(folder) / "days.db"
        return run(lambda loop: _play(loop, file, plan), seed=seed, step_limit=STEPS_MAX)


async def _play(loop: SimulationLoop, file: Path, plan: Plan) -> Outcome:
    clock = VirtualClock(loop)
    sandbox = Strava(clock, activities=plan.activities, stream_points=2)
    source = strava_source(decay=plan.decay)
    syncs = [Sync(name="backfill", source=source), Sync(name="live", source=source)]
    deployment = Deployment(loop, file, syncs, worker=WORKER)
    deployment.limiter = LimiterServer(StoreClock(loop, deployment.faults))
    deployment.transport = AsgiTransport({STRAVA: sandbox}, clock, latency_s=LATENCY_S)
    deployment.vault = AesVault(KeyRing.for_demo(), loop.random("nonces"))
    deployment.migrate()
    for number, name in enumerate(("one", "two")):
        deployment.launch(name).host.skew_s = plan.skew_s * (-1) ** number
    client = deployment.client()
    await client.database.open()
    try:
        connection = await _connect(client, deployment.transport)
        return await _Days(loop, plan, sandbox, deployment, client, connection).live()
    finally:
        await client.database.close()


async def _connect(client: Process, browser: AsgiTransport) -> str:
    """The athlete connects the account, on Strava's page and back."""
    credentials = client.runtime.credentials
    assert credentials is not None
    runtime = client.runtime
    connections = Connections(credentials, runtime.registry, runtime.fetching.items)
    who = {"user_id": USER, "session": "a browser", "redirect_uri": BACK}
    page = await connections.start("strava", **who)
    back = (await browser.send(Request(method="GET", url=page))).headers.get("location") or ""
    answered = dict(parse_qsl(urlsplit(back).query))
    return (await connections.finish(answered=answered, **who)).id


class _Days:
    """The days themselves: who does what, and when it ends."""

    def __init__(
        self,
        loop: SimulationLoop,
        plan: Plan,
        sandbox: Strava,
        deployment: Deployment,
        client: Process,
        connection_id: str,
    ) -> None:
        self._connection_id = connection_id
        self._plan = plan
        self._sandbox = sandbox
        self._deployment = deployment
        self._client = client
        self._clock = VirtualClock(loop)
        self._traffic = loop.random("live traffic")
        self._trouble = loop.random("trouble")
        self._live: list[str] = []
        self._crashes = 0
        self._forgotten = 0

    async def live(self) -> Outcome:
        """Let them pass."""
        backfill = await self._submit("backfill", Lane.COLD)
        beside = [
            asyncio.create_task(self._at_random(self._plan.live_a_day, self._new_activity)),
            asyncio.create_task(self._at_random(self._plan.forgets_a_day, self._forget)),
            asyncio.create_task(self._at_random(self._plan.crashes_a_day, self._crash)),
        ]
        done = await self._until_done(backfill)
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        return await self._outcome(done)

    async def _until_done(self, backfill: Job) -> Job:
        """Until the days are over, or without their number, until the backfill is."""
        ends = None if self._plan.days is None else self._plan.days * DAY_S
        while True:
            await self._clock.sleep(LOOK_S)
            self._deployment.launch_crashed()
            job = await self._client.sql_store.get(backfill.id)
            over = job.state in JOB.terminal if ends is None else self._clock.monotonic() >= ends
            if over:
                return job

    async def _at_random(self, times_a_day: float, happens: Any) -> None:
        """Again and again, as often as that on average."""
        draw = self._traffic if happens == self._new_activity else self._trouble
        while times_a_day:
            await self._clock.sleep(draw.expovariate(times_a_day / DAY_S))
            await happens()

    async def _new_activity(self) -> None:
        activity = self._sandbox.add_activity(NewActivity())
        while True:
            try:
                job = await self._submit("live", Lane.HOT, activity=str(activity.id))
            except ActiveJobExists:
                # The one before is still being read.
                await self._clock.sleep(BUSY_S)
            else:
                self._live.append(job.id)
                return

    async def _submit(self, sync: str, lane: Lane, **options: str) -> Job:
        request = JobRequest(
            sync=sync, user_id=USER, connection_id=self._connection_id, lane=lane, options=options
        )
        return (await submit(self._client.runtime, request)).job

    async def _forget(self) -> None:
        limiter = self._deployment.limiter
        assert limiter is not None
        limiter.restart_empty()
        self._forgotten += 1

    async def _crash(self) -> None:
        """At a random moment: between a grant and its request as well as anywhere else."""
        name = self._trouble.choice(sorted(self._deployment.processes))
        host = self._deployment.processes[name].host
        if not host.crashed:
            host.crash()
            self._crashes += 1

    async def _outcome(self, backfill: Job) -> Outcome:
        live = [await self._client.sql_store.get(job_id) for job_id in self._live]
        ended = backfill.finished_at
        took = None if ended is None else ended - backfill.created_at
        streams = "/api/v3/activities/{id}/streams"
        return Outcome(
            overshoot=self._sandbox.meter.overshoot(),
            answers_429=self._sandbox.requests.count(status=429),
            windows=tuple(self._sandbox.meter.tallies("read_15min")),
            backfill_s=None if took is None else took / timedelta(seconds=1),
            fetched=self._sandbox.requests.count(path=streams),
            live_jobs=len(live),
            live_done=sum(job.state is JobState.SUCCESS for job in live),
            live_deferred=sum(job.summary.deferrals > 0 for job in live),
            crashes=self._crashes,
            forgotten=self._forgotten,
        )
