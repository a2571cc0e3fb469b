"""A workload of schedules: ticks, goals, and people who pause and run them while clocks are set."""

from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, text

from headgate.base.errors import Transient
from headgate.flow.jobs.submit import JobRequest, submit_unchecked
from headgate.flow.registry import Sync
from headgate.flow.schedules.service import Schedules
from headgate.model.job import EventKind
from headgate.model.record import Record
from headgate.model.schedule import CatchUp, Schedule, TickKind
from headgate.model.states import JOB, JobState
from headgate.model.user import Preferences
from headgate.policy.cron import ticks_after
from headgate.ports.connector import Chunk, Context
from headgate.store.sql.tables import job_events, jobs, schedules, tick_users, ticks, users
from tests.simulation.deployment import START, Deployment
from tests.simulation.provider import FaultRates
from tests.simulation.workload import POLICY, Stage, Workload

USERS_MAX = 5
#: Never paused, and every tick fires, so that each of them can be asked for.
STRICT = Schedule(
    name="strict",
    sync="strict",
    cron="*/2 * * * *",
    stagger="5s",
    active_within=None,
    catch_up=CatchUp.ALL,
)
#: Paused, resumed and run by people.
LOOSE = Schedule(name="loose", sync="loose", cron="*/3 * * * *", stagger="5s", active_within=None)
FRESH = Schedule(name="fresh", sync="fresh", fresh_within="10m", active_within=None)
SCHEDULES = (STRICT, LOOSE, FRESH)
#: How far the clock of schedules is set, and how far it may be off.
STEPS_S = (-120.0, -30.0, 40.0, 150.0)
STEP_S_MAX = 150.0
#: The first tick is not later than this, whatever crashes at the start.
FIRST_TICK_MAX = timedelta(minutes=10)
PAGES = 2


class TwoPageSource:
    """A source of two pages."""

    name = "clockwork"

    def __init__(self, draw: Random, trouble: FaultRates) -> None:
        self._draw = draw
        self._trouble = trouble

    async def read(self, ctx: Context) -> Chunk:
        """Return a page after a while, or fail."""
        await ctx.clock.sleep(self._draw.uniform(0, 5))
        if self._draw.random() < self._trouble.fails:
            raise Transient("503")
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        records = [Record(f"page {page}", {"page": page})]
        return Chunk(records=records, cursor=page + 1 if page + 1 < PAGES else None)


class TickJob(NamedTuple):
    """A job that a tick made, as its first event tells."""

    schedule: str
    tick: datetime
    connection_id: str
    job_id: str
    state: JobState


class ScheduleWorkload(Workload):
    """The workload: schedules, their users, and an operator."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        draw = stage.loop.random("schedules")
        self._users = [f"user-{number}" for number in range(draw.randint(3, USERS_MAX))]
        self._source = TwoPageSource(stage.loop.random("clockwork"), stage.trouble)
        self._deployment: Deployment | None = None
        #: Ticks up to then have to end in the last act.
        self._until: datetime | None = None
        #: What the last look found to be late.
        self._unfinished: Sequence[str] = ()
        self._counts: Mapping[str, int] = {}

    def syncs(self) -> Sequence[Sync]:
        """Return a sync for each schedule."""
        return [Sync(name=each.sync, source=self._source, retry=POLICY) for each in SCHEDULES]

    def prepare(self, deployment: Deployment) -> None:
        """Give the deployment its schedules."""
        self._deployment = deployment
        deployment.schedules = SCHEDULES

    def install(self, tx: Connection) -> None:
        """Create the users, and the trigger that records how schedules move."""
        for name in self._users:
            row = {"id": name, "preferences": Preferences(), "created_at": START}
            tx.execute(insert(users).values(**row, updated_at=START))
        tx.execute(text("CREATE TABLE audit_schedules (name TEXT, old INTEGER, new INTEGER)"))
        tx.execute(
            text(
                "CREATE TRIGGER audit_last_tick AFTER UPDATE OF last_tick ON headgate_schedules "
                "BEGIN INSERT INTO audit_schedules "
                "VALUES (new.name, old.last_tick, new.last_tick); END"
            )
        )

    # ---- people --------------------------------------------------------------------------------

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the operator, a user who starts jobs by hand, and whoever sets the clock."""
        return [
            self.act("operator of schedules", self._operate),
            self.act("user with a hurry", self._submit),
            self.act("clock", self._set_clock),
        ]

    @property
    def _schedules(self) -> Schedules:
        return Schedules(self.stage.client.runtime, worker="client")

    async def _operate(self, draw: Random) -> None:
        chance = draw.random()
        if chance < 0.3:
            await self._schedules.pause(LOOSE.name, by="operator")
        elif chance < 0.7:
            await self._schedules.resume(LOOSE.name, by="operator")
        else:
            name = draw.choice((LOOSE.name, FRESH.name))
            await self._schedules.run_now(name, by="operator")

    async def _submit(self, draw: Random) -> None:
        user = draw.choice(self._users)
        sync = draw.choice(SCHEDULES).sync
        await submit_unchecked(
            self.stage.client.runtime, JobRequest(sync=sync, user_id=user, connection_id=user)
        )

    async def _set_clock(self, draw: Random) -> None:
        assert self._deployment is not None
        step_s = self._deployment.clock_step_s + draw.choice(STEPS_S)
        if abs(step_s) <= STEP_S_MAX:
            self._deployment.clock_step_s = step_s
            self.stage.loop.note(f"the clock of schedules is {step_s} s off")

    # ---- the end -------------------------------------------------------------------------------

    async def wind_up(self) -> bool:
        """Resume what is paused; return whether nothing is overdue or stale, and all has ended."""
        names = [each.name for each in SCHEDULES]
        now, states = await self.stage.client.sql_schedules.states(names)
        if self._until is None:
            self._until = now
        if any(state.paused_at is not None for state in states):
            await self._schedules.resume(LOOSE.name, by="operator")
        plan = await self._schedules.plan(FRESH.name)
        assert plan.freshness is not None
        self._unfinished = [
            *(f"{name} is not stored" for name in names[len(states) :]),
            *(f"{state.name} is overdue" for state in states if state.next_tick_at <= now),
            *(f"{each.user_id} is stale" for each in plan.freshness.stale),
        ]
        return not self._unfinished and not await self.stage.client.database.read(self._waiting)

    def _waiting(self, tx: Connection) -> list[TickJob]:
        """Jobs of the first act's ticks that have not ended."""
        assert self._until is not None
        return [
            job
            for job in _tick_jobs(tx)
            if job.tick <= self._until and job.state not in JOB.terminal
        ]

    def judge(self, tx: Connection) -> Iterable[str]:
        """Check ONCE, LOSS, EARLY and LIVE of ticks."""
        made = _tick_jobs(tx)
        self._counts = {"ticks": len(tx.execute(select(ticks)).all()), "scheduled": len(made)}
        yield from _judge_once(tx, made)
        yield from self._judge_users(tx, made)
        yield from self._judge_ticks(tx)
        if self._unfinished:
            yield f"LIVE: {self._unfinished}"
        for job in self._waiting(tx):
            yield f"LIVE: {job.job_id} of {job.schedule} at {job.tick} is still {job.state.value}"

    def _judge_users(self, tx: Connection, made: Sequence[TickJob]) -> Iterable[str]:
        """Check that each tick has a job or a reason for every user, and the job that it names."""
        known = {(job.schedule, job.tick, job.connection_id): job.job_id for job in made}
        told = {
            (row.schedule, row.tick, row.connection_id): row
            for row in tx.execute(select(tick_users))
        }
        for row in told.values():
            of = row.schedule, row.tick, row.connection_id
            if row.reason is None and known.get(of) != row.job_id:
                yield f"LOSS: {of} has no job {row.job_id}"
            if row.reason is not None and of in known:
                yield f"ONCE: {of} was skipped, and has the job {known[of]}"
        for of in sorted(known.keys() - told.keys()):
            yield f"ONCE: the job of {of} is of no tick"
        for tick in tx.execute(select(ticks).where(ticks.c.kind != TickKind.FRESH)):
            for user in self._users:
                if (tick.schedule, tick.tick, user) not in told:
                    yield f"LOSS: {tick.schedule} at {tick.tick} has forgotten {user}"

    def _judge_ticks(self, tx: Connection) -> Iterable[str]:
        """Check that no tick was early, none is missing, and none is overdue."""
        # A run that somebody asks for has no time of its own.
        for row in tx.execute(select(ticks).where(ticks.c.kind != TickKind.MANUAL)):
            if row.fired_at < row.tick:
                yield f"EARLY: {row.schedule} fired {row.tick} at {row.fired_at}"
        fired = sorted(
            row.tick for row in tx.execute(select(ticks).where(ticks.c.schedule == STRICT.name))
        )
        if not fired or fired[0] > START + FIRST_TICK_MAX:
            yield f"LOSS: the first tick was {fired[:1]}"
            return
        assert STRICT.cron is not None
        expected = [fired[0]]
        for tick in ticks_after(STRICT.cron, STRICT.zone, fired[0]):
            if tick > fired[-1]:
                break
            expected.append(tick)
        for missing in sorted(set(expected) - set(fired)):
            yield f"LOSS: the tick {missing} has not fired"
        for wrong in sorted(set(fired) - set(expected)):
            yield f"ONCE: there is no tick {wrong}"
        for row in tx.execute(select(schedules)):
            if self._until is not None and row.next_tick_at <= self._until:
                yield f"LIVE: {row.name} has not fired since {row.next_tick_at}"

    def counts(self) -> Mapping[str, int]:
        """Count the ticks, and the jobs that they made."""
        return self._counts


def _judge_once(tx: Connection, made: Sequence[TickJob]) -> Iterable[str]:
    """Check that no user has two jobs of a tick, and that no schedule went back."""
    for of, count in Counter((job.schedule, job.tick, job.connection_id) for job in made).items():
        if count > 1:
            yield f"ONCE: {of} has {count} jobs"
    for row in tx.execute(text("SELECT * FROM audit_schedules WHERE new <= old")):
        yield f"ONCE: {row.name} went from the tick {row.old} to {row.new}"


def _tick_jobs(tx: Connection) -> list[TickJob]:
    query = (
        select(job_events.c.data, jobs.c.connection_id, jobs.c.id, jobs.c.state)
        .join(jobs, jobs.c.id == job_events.c.job_id)
        .where(job_events.c.kind == EventKind.SUBMITTED)
    )
    return [
        TickJob(
            str(row.data["schedule"]),
            datetime.fromisoformat(str(row.data["tick"])),
            row.connection_id,
            row.id,
            row.state,
        )
        for row in tx.execute(query)
        if "schedule" in row.data
    ]
