"""A worker killed between Strava's "taken" and our commit: there is one activity all the same."""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from headgate import App, JobRequest, JobState
from headgate.base.clock import SystemClock
from headgate.model.states import JOB
from headgate.ports.transport import Request
from headgate.systems.health_history.syncs import LIVE, NAME
from headgate.types import Job
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.serving import serving
from headgate_sandbox.strava.sandbox import Strava
from tests.connecting import key_entries
from tests.faults.harness import WAIT_S_MAX
from tests.faults.history_worker import POINTS, application
from tests.health import BACK, SPORTY
from tests.processes import Process

WHO = {"user_id": "ada", "session": "a browser", "redirect_uri": BACK}


class Place:
    """The application, its providers, and the processes that a test starts."""

    def __init__(self, app: App, google: GoogleHealth, strava: Strava) -> None:
        self.app = app
        self.google = google
        self.strava = strava
        self.workers: list[Process] = []

    def start_worker(self, crash_at: str = "") -> Process:
        """Start one, and do not wait for it."""
        environment = {**os.environ, "CRASH_AT": crash_at}
        self.workers.append(Process("tests.faults.history_worker", environment=environment))
        return self.workers[-1]

    async def kill_one(self, point: str) -> None:
        """A worker works until it is killed at that point."""
        code = await asyncio.to_thread(self.start_worker(point).wait, WAIT_S_MAX)
        assert code == -signal.SIGKILL

    async def connect(self) -> str:
        """Connect both of the user's accounts, on the provider's page and back; that of Fitbit."""
        ids = []
        for source in ("fitbit", "strava"):
            page = await self.app.connections.start(source, **WHO)
            assert self.app._runtime.transport is not None
            answer = await self.app._runtime.transport.send(Request(method="GET", url=page))
            back = dict(parse_qsl(urlsplit(answer.headers.get("location") or "").query))
            ids.append((await self.app.connections.finish(query=back, **WHO)).id)
        return ids[0]

    async def backfill(self, start: date, end: date) -> Job:
        """An import of these days."""
        asked = JobRequest(
            user_id="ada", source="fitbit", destination="strava", start_date=start, end_date=end
        )
        return (await self.app.jobs.submit(asked)).job

    async def ended(self, job_id: str) -> Job:
        """The job, when it has ended."""
        deadline = time.monotonic() + WAIT_S_MAX
        while (job := await self.app.jobs.get(job_id)).state not in JOB.terminal:
            assert time.monotonic() < deadline, (job.state, job.reason, job.error)
            await asyncio.sleep(0.2)
        return job

    def sent(self) -> int:
        """How many files Strava has taken."""
        return self.strava.requests.count(method="POST", path="/api/v3/uploads", status=201)

    def activities(self) -> list[tuple[int, str | None]]:
        """The number and the name of each activity at Strava, in order."""
        archive = self.strava.world.archive(self.strava.world.athlete_ids[0])
        first = archive.next_id() - archive.size
        found = [archive.find(first + number) for number in range(archive.size)]
        return [(each.id, each.external_id) for each in found if each is not None]

    def exercises(self, day: date) -> list[str]:
        """The ids of a day's exercises at Google."""
        person = self.google.world.person(str(self.google.world.user_ids[0]))
        number = (day - date(1970, 1, 1)).days
        return [str(each.id) for each in self.google.world.exercises(person, number)]

    async def remembered(self, connection_id: str, exercises: list[str]) -> list[object]:
        """The activity of each exercise, by our records."""
        found = await self.app.records.list(NAME, connection_id)
        records = {each.key: each.data for each in found}
        return [records[f"exercise:{each}"]["strava_activity_id"] for each in exercises]


@pytest.fixture
async def place(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    """The health history with both providers on loopback, in this process and all it starts."""
    keys = tmp_path / "keys"
    keys.write_text(key_entries("k1")[0], encoding="ascii")
    keys.chmod(0o600)
    # Somebody with an exercise every day, and an athlete without any activity.
    google = GoogleHealth(SystemClock(), shares=SPORTY)
    strava = Strava(SystemClock(), activities=0, processing_s=0.05)
    with serving(google) as google_url, serving(strava) as strava_url:
        for name, value in {
            "GOOGLE": google_url,
            "STRAVA": strava_url,
            "HEADGATE_DATABASE": address,
            "HEADGATE_KEY_FILE": str(keys),
            "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
        }.items():
            monkeypatch.setenv(name, value)
        async with application() as app:
            made = Place(app, google, strava)
            try:
                yield made
            finally:
                for worker in made.workers:
                    worker.end()


#: Once here, where the file is with Strava and nobody knows; the others are thorough.
KILLED = [
    (
        each
        if each == ("sqlite", "after_upload")
        else pytest.param(*each, marks=pytest.mark.thorough)
    )
    for each in itertools.product(("sqlite", "postgres"), POINTS)
]


@pytest.mark.parametrize(("address", "point"), KILLED, indirect=["address"])
@pytest.mark.fault(1)
async def test_a_worker_killed_after_an_upload_leaves_one_activity(
    place: Place, point: str
) -> None:
    # Given an import of two days, and a worker that is killed with the first on its way
    app, fitbit = place.app, await place.connect()
    newest = SystemClock().now().date() - timedelta(days=3)
    days = [newest, newest - timedelta(days=1)]
    job = await place.backfill(days[1], days[0])
    await place.kill_one(point)

    # Strava has the file, and nothing was committed
    assert place.sent() == 1
    assert (await app.jobs.get(job.id)).steps == 0
    assert await app.records.list(NAME, fitbit) == []

    # When another worker takes over
    place.start_worker()
    job = await place.ended(job.id)

    # Then the day was sent again, and there is one activity for each exercise
    assert job.state is JobState.SUCCESS, job.error
    assert (job.summary.crashes, job.summary.errors) == (1, 0)
    assert place.sent() == 3
    expected = [each for day in days for each in place.exercises(day)]
    activities = place.activities()
    assert [name for _, name in activities] == [f"headgate-fitbit-{each}.tcx" for each in expected]
    assert len(expected) == 2

    # And what is remembered is the activity of the first upload
    assert await place.remembered(fitbit, expected) == [number for number, _ in activities]


@pytest.mark.thorough
@pytest.mark.parametrize("point", POINTS)
async def test_an_import_and_a_live_sync_at_once_make_one_activity_each_despite_a_kill(
    place: Place, point: str
) -> None:
    # Given an import and a live sync of the same days, and a worker that is killed after the
    # first upload of either
    fitbit = await place.connect()
    newest = SystemClock().now().date()
    slow = await place.backfill(newest - timedelta(days=2), newest)
    live = await place.app.jobs.submit(JobRequest(sync=LIVE, user_id="ada", mode="since"))
    await place.kill_one(point)

    # When two other workers take over
    for _ in range(2):
        place.start_worker()
    jobs = [await place.ended(each.id) for each in (slow, live.job)]

    # Then there is one activity for each exercise, and one record that knows it
    assert [job.state for job in jobs] == [JobState.SUCCESS] * 2, [job.error for job in jobs]
    days = [newest + timedelta(days=number) for number in range(-2, 2)]
    exercises = [each for day in days for each in place.exercises(day)]
    activities = place.activities()
    named = sorted(f"headgate-fitbit-{each}.tcx" for each in exercises)
    assert sorted(str(name) for _, name in activities) == named
    assert exercises
    known = await place.remembered(fitbit, exercises)
    assert set(known) == {number for number, _ in activities}
    # Only the file whose fate nobody knew was sent twice
    assert place.sent() <= len(exercises) + 3
    assert sum(job.summary.delivered for job in jobs) == len(exercises)
