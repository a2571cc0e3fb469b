"""Forecasts of imports against what happened: the whole engine, played in virtual time.

Every run is drawn from its seed: the days, how much the user records, how fast the two providers
answer, their limits, who else imports, and how much live work there is. What the forecast does not
know is drawn too: seasons, weeks without data, the day on which a history begins, slow hours.

An error is how far the likely time was from the end, as a share of the import's whole time. Of ten
days nobody knows how many exercises are on the last five, so `error_…` is what half of the imports
stay below; the mean and what nine of ten stay below are printed beside it.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from datetime import date, timedelta
from functools import cache
from math import exp, pi, sin
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

import msgspec

from bench.report import Report, console, is_quick, percentile
from headgate import (
    ApiDestination,
    App,
    Batch,
    Budget,
    Chunk,
    Context,
    DayCost,
    JobRequest,
    JobState,
    Limit,
    Mode,
    Record,
    Sync,
    WriteResult,
)
from headgate.base import log
from headgate.base.clock import Clock, SystemClock
from headgate.model.forecast import Finish
from headgate.model.states import JOB
from headgate.ports.transport import Request, Response
from headgate.signals.local import LocalSignal
from headgate.store.sql import schema
from headgate.store.sql.engine.sqlite import InlineSqliteDatabase
from headgate.testing import SimulationLoop, VirtualClock, run
from headgate.types import Job
from tests.simulation.deployment import START

RUNS, RUNS_QUICK = 120, 20
SIZES = (10, 20, 30, 60, 120, 250, 365, 730)
SIZES_QUICK = SIZES[:-3]
#: Where the running estimate is looked at, as a share of the days.
LOOKS = (0.1, 0.25, 0.5, 0.75, 0.9)
HALF = 0.5
#: The days of the import that taught the user's rate, if one did.
EARLIER_DAYS = 40
#: How often a run looks at its import: so many times in all, if it takes as long as was told.
LOOKS_MAX = 600
LOOK_S_MIN = 0.5
STEPS_MAX = 200_000_000
TIME_S_MAX = 400 * 86_400.0
LAST = START.date() - timedelta(days=3)
#: How long the engine was up, and the earlier import over, when the forecast is asked for.
BEFORE_S = (300.0, 6 * 3600.0)
#: Requests that one live job sends.
LIVE_REQUESTS = 4

#: Limits of providers as they are: generous ones; a quarter of an hour; an hour; with a day's limit
#: that a long import meets, and one that it hardly does.
SOURCE_LIMITS: Sequence[tuple[Sequence[Limit], dict[str, Any]]] = (
    (
        [Limit(300, per="min", rolling=True, reserve=30), Limit(10**6, per="day")],
        {"pace_s_min": 0.2},
    ),
    ([Limit(600, per="15min", reserve=60)], {"pace_s_min": 0.1}),
    ([Limit(300, per="hour", reserve=60)], {"paced": False}),
    ([Limit(900, per="hour", reserve=100), Limit(9000, per="day", reserve=500)], {}),
    ([Limit(200, per="15min", reserve=40), Limit(4000, per="day", reserve=400)], {}),
    ([Limit(200, per="15min", reserve=40)], {"reserve_decay": True}),
    ([], {"slots": 4, "paced": False}),
)
TARGET_LIMITS: Sequence[tuple[Sequence[Limit], dict[str, Any]]] = (
    (
        [
            Limit(100, per="15min", only="read", reserve=20),
            Limit(1000, per="day", only="read", reserve=240),
            Limit(200, per="15min", reserve=40),
            Limit(2000, per="day", reserve=400),
        ],
        {},
    ),
    ([Limit(1000, per="15min", reserve=100)], {"pace_s_min": 0.1}),
    ([Limit(60, per="min", reserve=10)], {"paced": False}),
)


class User(msgspec.Struct, frozen=True, kw_only=True):
    """How much somebody records, and when."""

    seed: int
    #: Records on a day with data, and the share of such days.
    records: float
    share: float
    #: How much the share changes over the year, and the chance that a week is without data.
    season: float
    idle_weeks: float
    #: Before this day there is nothing.
    begins: date

    def records_on(self, day: date) -> int:
        """The number of records of a day, always the same."""
        week = Random(f"{self.seed} week {day.toordinal() // 7}")
        draw = Random(f"{self.seed} {day.toordinal()}")
        swing = 1 + self.season * sin(2 * pi * day.timetuple().tm_yday / 365)
        if day < self.begins or week.random() < self.idle_weeks:
            return 0
        if draw.random() >= self.share * swing:
            return 0
        count = 1
        while draw.random() < 1 - 1 / self.records and count < 30:
            count += 1
        return count


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a provider answers."""

    seconds: float
    #: How much single answers vary, and whole hours.
    spread: float
    drift: float

    def draw(self, rng: Random, at_s: float) -> float:
        """The seconds of one answer."""
        hour = Random(f"{self.seconds} {int(at_s // 3600)}").gauss(0, self.drift)
        return self.seconds * exp(rng.gauss(0, self.spread) + hour)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    seed: int
    days: int
    user: User
    others: Sequence[tuple[User, int]]
    source: Budget
    target: Budget | None
    source_speed: Speed
    target_speed: Speed
    #: Requests for every day, and for every record at the source and at the target.
    per_day: int
    per_record: int
    #: How long the target works on an upload before it is asked.
    pause_s: float
    live_an_hour: float
    #: Whether the user has imported before, and whether anybody has.
    known: bool
    seen: bool


#: A range in seconds from the beginning, with the likely time between its ends.
Told = tuple[float, float, float]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was told, and what happened."""

    scenario: Scenario
    took_s: float
    #: The first range, and those at the looks; None where nothing was told.
    first: Told | None
    looks: dict[float, Told | None]

    def inside(self, told: Told | None) -> bool:
        """Whether it ended in that range; a second is no matter."""
        return told is not None and told[0] - 1 <= self.took_s <= told[2] + 1

    def error(self, told: Told | None) -> float:
        """How far the likely time was from the end, as a share of the whole."""
        return 1.0 if told is None else abs(told[1] - self.took_s) / self.took_s


def draw_user(rng: Random, seed: int, days: int) -> User:
    """Somebody."""
    begins = rng.randrange(days // 3, days + 1) if rng.random() < 0.1 else 10_000
    return User(
        seed=seed,
        records=rng.choice((1.0, 1.1, 1.3, 1.6)),
        share=rng.uniform(0.1, 0.95),
        season=rng.choice((0.0, 0.15, 0.3)),
        idle_weeks=rng.choice((0.0, 0.0, 0.05, 0.1)),
        begins=LAST - timedelta(days=begins) if begins < 10_000 else date(1990, 1, 1),
    )


def draw_speed(rng: Random, least_s: float, most_s: float) -> Speed:
    """A provider's speed."""
    return Speed(
        seconds=least_s * (most_s / least_s) ** rng.random(),
        spread=rng.uniform(0.1, 0.5),
        drift=rng.choice((0.0, 0.05, 0.15)),
    )


def draw(seed: int, sizes: Sequence[int]) -> Scenario:
    """The scenario of a seed."""
    rng = Random(seed)
    days = sizes[seed % len(sizes)]
    limits, options = rng.choice(SOURCE_LIMITS)
    target: Budget | None = None
    if rng.random() < 0.6:
        target_limits, target_options = rng.choice(TARGET_LIMITS)
        target = Budget("target", target_limits, **target_options)
    others = 0 if rng.random() < 0.6 else rng.randrange(1, 4)
    return Scenario(
        seed=seed,
        days=days,
        user=draw_user(rng, seed, days),
        others=[
            (draw_user(rng, 1000 * seed + number, days), rng.choice(sizes))
            for number in range(others)
        ],
        source=Budget("source", limits, **options),
        target=target,
        source_speed=draw_speed(rng, 0.08, 0.8),
        target_speed=draw_speed(rng, 0.1, 1.0),
        per_day=rng.choice((1, 2, 4, 7)),
        per_record=rng.choice((0, 1, 1, 2)),
        pause_s=rng.choice((0.0, 2.0)),
        live_an_hour=0.0 if seed % 2 else rng.choice((2.0, 6.0, 15.0)),
        known=rng.random() < 0.6,
        seen=rng.random() < 0.7,
    )


class Days:
    """The source: it reads a day of a user, request by request."""

    name = "source"

    def __init__(self, play: "Play") -> None:
        """Read what the play's users have."""
        self._play = play
        self.budget = play.scenario.source

    async def read(self, ctx: Context) -> Chunk:
        """The records of a day; a live job only asks."""
        scenario = self._play.scenario
        if ctx.day is None:
            await self._ask(ctx, LIVE_REQUESTS)
            return Chunk()
        count = self._play.users[ctx.user_id].records_on(ctx.day)
        await self._ask(ctx, scenario.per_day + count * scenario.per_record)
        return Chunk(records=[Record(f"{ctx.day} {number}", {}) for number in range(count)])

    async def _ask(self, ctx: Context, requests: int) -> None:
        for _ in range(requests):
            async with ctx.gate.request():
                await self._play.answer(self._play.scenario.source_speed)


class Uploads(ApiDestination):
    """The target: an upload of every record, and a look at what became of it."""

    pause_s = 0.0

    async def write(self, batch: Batch) -> WriteResult:
        """Upload, wait, ask."""
        for record in batch.records:
            await batch.http.post("/uploads", json={}, kind="upload", repeatable=True)
            await batch.clock.sleep(self.pause_s)
            await batch.http.get(f"/uploads/{record.key[-1]}")
        return WriteResult(receipts=[Record(each.key, {}) for each in batch.records])


class Wire:
    """The way to the target."""

    def __init__(self, play: "Play") -> None:
        """Answer as fast as the play says."""
        self._play = play

    async def send(self, request: Request) -> Response:
        """An answer that says nothing."""
        await self._play.answer(self._play.scenario.target_speed)
        return Response(status=200, body=b"{}", url=request.url)

    async def close(self) -> None:
        """There is nothing to close."""


class Play:
    """One scenario, played."""

    def __init__(self, scenario: Scenario, loop: SimulationLoop, file: Path) -> None:
        """Play it on a database of its own."""
        self.scenario = scenario
        self.users = {"ada": scenario.user}
        self.clock: Clock = VirtualClock(loop, START)
        self._rng = Random(scenario.seed + 1)
        self._app = App(
            InlineSqliteDatabase(file, self.clock),
            syncs=self._syncs(),
            signal=LocalSignal(),
            clock=self.clock,
            rng=Random(scenario.seed + 2),
            transport=Wire(self),
        )

    def _syncs(self) -> list[Sync]:
        scenario = self.scenario
        target: Uploads | None = None
        least, most = float(scenario.per_day), scenario.per_day + 2.0 * scenario.per_record
        costs = [DayCost(provider="source", least=least, most=most)]
        if scenario.target is not None:
            target = Uploads("target", base_url="https://target.example", budget=scenario.target)
            target.pause_s = scenario.pause_s
            for kind in ("upload", "read"):
                costs.append(DayCost(provider="target", kind=kind, least=0.05, most=2.0))
        return [
            Sync(
                name="history",
                source=Days(self),
                destination=target,
                day_costs=costs,
                chunk_s_max=3600.0,
            ),
            Sync(name="live", source=Days(self), modes=(Mode.FULL,)),
        ]

    async def answer(self, speed: Speed) -> None:
        """Let the time of one answer pass."""
        await self.clock.sleep(speed.draw(self._rng, self.clock.now().timestamp()))

    async def run(self) -> Outcome:
        """The import, and what was told about it."""
        async with self._app:
            supervisor = self._app.supervisor()
            await supervisor.start()
            live = asyncio.create_task(self._live())
            await self._before()
            await self.clock.sleep(self._rng.uniform(*BEFORE_S))
            for number, (user, days) in enumerate(self.scenario.others):
                self.users[f"other {number}"] = user
                await self._start(f"other {number}", LAST, days)
            if self.scenario.others:
                await self.clock.sleep(self._rng.uniform(5, 600))
            outcome = await self._measure()
            live.cancel()
            await supervisor.stop()
            return outcome

    async def _before(self) -> None:
        """The imports from which the engine knows the user, or the providers."""
        scenario = self.scenario
        if scenario.known:
            await self._until_done(await self._start("ada", LAST, EARLIER_DAYS))
        elif scenario.seen:
            self.users["bob"] = draw_user(Random(scenario.seed + 3), -scenario.seed, 30)
            await self._until_done(await self._start("bob", LAST, 30))

    async def _measure(self) -> Outcome:
        days = self.scenario.days
        last = LAST - timedelta(days=EARLIER_DAYS)
        asked = self._request("ada", last, days)
        began = self.clock.now()
        first = (await self._app.jobs.forecast(asked)).finish
        job = (await self._app.jobs.submit(asked)).job
        marks, looks = list(LOOKS), dict.fromkeys(LOOKS)
        likely_s = 0.0 if first is None else (first.likely - began).total_seconds()
        every_s = max(LOOK_S_MIN, likely_s / LOOKS_MAX)
        while job.state not in JOB.terminal:
            await self.clock.sleep(every_s)
            job = await self._app.jobs.get(job.id)
            while marks and job.progress.done >= marks[0] * days and job.state not in JOB.terminal:
                told = (await self._app.jobs.status(job.id)).finish
                looks[marks.pop(0)] = self._range(told, began)
        assert job.state is JobState.SUCCESS, job.error
        assert job.finished_at is not None
        return Outcome(
            scenario=self.scenario,
            took_s=(job.finished_at - began).total_seconds(),
            first=self._range(first, began),
            # A look that a short import did not wait for is not one that failed.
            looks={mark: told for mark, told in looks.items() if mark not in marks},
        )

    def _range(self, told: Finish | None, began: Any) -> Told | None:
        if told is None:
            return None
        times = (told.earliest, told.likely, told.latest)
        first_s, likely_s, last_s = ((each - began).total_seconds() for each in times)
        return first_s, likely_s, last_s

    async def _live(self) -> None:
        """New work at random times."""
        number = 0
        while self.scenario.live_an_hour:
            await self.clock.sleep(self._rng.expovariate(self.scenario.live_an_hour / 3600))
            number += 1
            await self._app.jobs.submit("live", user_id=f"live {number}")

    def _request(self, user: str, last: date, days: int) -> JobRequest:
        return JobRequest(
            user_id=user,
            source="source",
            destination=None if self.scenario.target is None else "target",
            start_date=last - timedelta(days=days - 1),
            end_date=last,
        )

    async def _start(self, user: str, last: date, days: int) -> Job:
        return (await self._app.jobs.submit(self._request(user, last, days))).job

    async def _until_done(self, job: Job) -> None:
        while (await self._app.jobs.get(job.id)).state not in JOB.terminal:
            await self.clock.sleep(30.0)


def play(scenario: Scenario) -> Outcome:
    """Play a scenario."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        file = Path(folder) / "run.db"
        shutil.copyfile(_empty_database(), file)
        return run(
            lambda loop: Play(scenario, loop, file).run(),
            seed=scenario.seed,
            step_limit=STEPS_MAX,
            time_limit_s=TIME_S_MAX,
        )


@cache
def _empty_database() -> Path:
    """A migrated database to copy: migrating anew for every run would be slow."""
    file = Path(tempfile.mkdtemp(prefix="headgate-bench-")) / "empty.db"

    async def build(loop: SimulationLoop) -> None:
        database = InlineSqliteDatabase(file, VirtualClock(loop, START))
        await database.open()
        await schema.migrate(database)
        await database.close()

    run(build)
    return file


def main() -> None:
    """Play all runs and print how the forecasts held."""
    quick = is_quick(__doc__ or "")
    log.configure(SystemClock(), json=True, level="critical")
    runs, sizes = (RUNS_QUICK, SIZES_QUICK) if quick else (RUNS, SIZES)
    outcomes = []
    for seed in range(runs):
        outcomes.append(play(draw(seed, sizes)))
        if (seed + 1) % 20 == 0:
            console.print(f"  {seed + 1} of {runs} imports", style="dim")
    report = Report("forecast")
    tell(report, outcomes)
    report.print()


def tell(report: Report, outcomes: Sequence[Outcome]) -> None:
    """The figures."""
    looks = [(each, told) for each in outcomes for told in each.looks.values()]
    known = [each for each in outcomes if each.scenario.known]
    half = [(each, each.looks[HALF]) for each in outcomes if HALF in each.looks]
    first = [each.inside(each.first) for each in outcomes]
    report.add("inside_start", fmean(first), "of the runs", f", {len(outcomes)} imports")
    report.add(
        "inside_running",
        fmean(each.inside(told) for each, told in looks),
        "of the looks",
        f", {len(looks)}, at 10 to 90 % of the days",
    )
    errors = {
        "start": [each.error(each.first) for each in known],
        "half": [each.error(told) for each, told in half],
    }
    for name, found in errors.items():
        note = f", {len(found)} imports"
        report.add(f"error_{name}", median(found), "of the whole time", f"; half of {note[2:]}")
        report.add(f"error_{name}_mean", fmean(found), "of the whole time", note)
        report.add(f"error_{name}_p90", percentile(found, 0.9), "of the whole time", "; 9 of 10")
    for name, live in (("live", True), ("alone", False)):
        some = [each for each in outcomes if bool(each.scenario.live_an_hour) is live]
        report.add(
            f"inside_start_{name}",
            fmean(each.inside(each.first) for each in some),
            "of the runs",
            ", with live work" if live else ", without live work",
        )
    widths = [each.first[2] / each.first[0] for each in known if each.first and each.first[0]]
    report.add("width_start", percentile(widths, 0.5), "times", ", latest to earliest, known users")


if __name__ == "__main__":
    main()
