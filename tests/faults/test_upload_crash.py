"""A worker killed between Strava's "taken" and our commit: there is one activity all the same."""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from headgate import App, BackfillRequest, Job, JobRequest, JobState
from headgate.base.clock import SystemClock
from headgate.model.states import JOB
from headgate.ports.transport import Request
from headgate.sandbox.google_health.sandbox import GoogleHealth
from headgate.sandbox.serving import serving
from headgate.sandbox.strava.sandbox import Strava
from headgate.systems.health_history.syncs import LIVE, NAME
from tests.connecting import key_entries
from tests.faults.harness import WAIT_S_MAX
from tests.faults.history_worker import POINTS, application
from tests.health import BACK, SPORTY
from tests.processes import Process

WHO = {"user_id": "ada", "session": "a browser", "redirect_uri": BACK}


@pytest.fixture
def google() -> GoogleHealth:
    """Somebody with an exercise every day."""
    return GoogleHealth(SystemClock(), shares=SPORTY)


@pytest.fixture
def strava() -> Strava:
    """An athlete without any activity."""
    return Strava(SystemClock(), activities=0, processing_s=0.05)


@pytest.fixture
def app(
    google: GoogleHealth,
    strava: Strava,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[App]:
    """The health history with both providers on loopback, in this process and all it starts."""
    keys = tmp_path / "keys"
    keys.write_text(key_entries("k1")[0], encoding="ascii")
    keys.chmod(0o600)
    with serving(google) as google_url, serving(strava) as strava_url:
        for name, value in {
            "GOOGLE": google_url,
            "STRAVA": strava_url,
            "HEADGATE_DATABASE": address,
            "HEADGATE_KEY_FILE": str(keys),
            "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
        }.items():
            monkeypatch.setenv(name, value)
        yield application()


@pytest.fixture
def workers() -> Iterator[list[Process]]:
    """The processes that a test starts; they are gone afterwards."""
    started: list[Process] = []
    yield started
    for worker in started:
        worker.end()


def start_worker(crash_at: str = "") -> Process:
    return Process("tests.faults.history_worker", environment={**os.environ, "CRASH_AT": crash_at})


async def connect(app: App, source: str) -> str:
    """Connect the user's account, on the provider's page and back."""
    page = await app.connections.start(source, **WHO)
    assert app._runtime.transport is not None
    answer = await app._runtime.transport.send(Request(method="GET", url=page))
    back = urlsplit(answer.headers.get("location") or "")
    return (await app.connections.finish(query=dict(parse_qsl(back.query)), **WHO)).id


async def ended(app: App, job_id: str) -> Job:
    deadline = time.monotonic() + WAIT_S_MAX
    while (job := await app.jobs.get(job_id)).state not in JOB.terminal:
        assert time.monotonic() < deadline, (job.state, job.reason, job.error)
        await asyncio.sleep(0.2)
    return job


def exercise_of(google: GoogleHealth, day: date) -> str:
    person = google.world.person(str(google.world.user_ids[0]))
    [exercise] = google.world.exercises(person, (day - date(1970, 1, 1)).days)
    return str(exercise.id)


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
    app: App,
    google: GoogleHealth,
    strava: Strava,
    workers: list[Process],
    point: str,
) -> None:
    async with app:
        # Given an import of two days, and a worker that is killed with the first on its way
        fitbit = await connect(app, "fitbit")
        await connect(app, "strava")
        newest = SystemClock().now().date() - timedelta(days=3)
        days = [newest, newest - timedelta(days=1)]
        asked = BackfillRequest(
            user_id="ada", source="fitbit", destination="strava", start=days[1], end=days[0]
        )
        job = (await app.backfills.start(asked)).job
        workers.append(start_worker(crash_at=point))
        assert await asyncio.to_thread(workers[0].wait, WAIT_S_MAX) == -signal.SIGKILL

        # Strava has the file, and nothing was committed
        archive = strava.world.archive(strava.world.athlete_ids[0])
        assert strava.requests.count(method="POST", path="/api/v3/uploads", status=201) == 1
        assert (await app.jobs.get(job.id)).steps == 0
        assert await app.records.list(NAME, fitbit) == []

        # When another worker takes over
        workers.append(start_worker())
        job = await ended(app, job.id)

        # Then the day was sent again, and there is one activity for each exercise
        assert job.state is JobState.SUCCESS, job.error
        assert (job.summary.crashes, job.summary.errors) == (1, 0)
        assert strava.requests.count(method="POST", path="/api/v3/uploads", status=201) == 3
        assert archive.size == 2
        first = archive.next_id() - archive.size
        activities = [archive.find(first + number) for number in range(2)]
        names = [each.external_id for each in activities if each is not None]
        expected = [exercise_of(google, day) for day in days]
        assert names == [f"headgate-fitbit-{each}.tcx" for each in expected]

        # And what is remembered is the activity of the first upload
        records = {each.key: each.data for each in await app.records.list(NAME, fitbit)}
        told = [records[f"exercise:{each}"]["strava_activity_id"] for each in expected]
        assert told == [first, first + 1]


@pytest.mark.thorough
@pytest.mark.parametrize("point", POINTS)
async def test_an_import_and_a_live_sync_at_once_make_one_activity_each_despite_a_kill(
    app: App,
    google: GoogleHealth,
    strava: Strava,
    workers: list[Process],
    point: str,
) -> None:
    async with app:
        # Given an import and a live sync of the same days, and a worker that is killed after the
        # first upload of either
        fitbit = await connect(app, "fitbit")
        await connect(app, "strava")
        newest = SystemClock().now().date()
        asked = BackfillRequest(
            user_id="ada",
            source="fitbit",
            destination="strava",
            start=newest - timedelta(days=2),
            end=newest,
        )
        slow = (await app.backfills.start(asked)).job
        live = (await app.jobs.start(JobRequest(sync=LIVE, user_id="ada", mode="since"))).job
        workers.append(start_worker(crash_at=point))
        assert await asyncio.to_thread(workers[0].wait, WAIT_S_MAX) == -signal.SIGKILL

        # When two other workers take over
        workers += [start_worker(), start_worker()]
        jobs = [await ended(app, each.id) for each in (slow, live)]

        # Then there is one activity for each exercise, and one record that knows it
        assert [job.state for job in jobs] == [JobState.SUCCESS] * 2, [job.error for job in jobs]
        archive = strava.world.archive(strava.world.athlete_ids[0])
        first = archive.next_id() - archive.size
        made = [archive.find(first + number) for number in range(archive.size)]
        names = sorted(each.external_id or "" for each in made if each is not None)
        person = google.world.person(str(google.world.user_ids[0]))
        day = (newest - date(1970, 1, 1)).days
        exercises = [
            str(each.id)
            for number in range(day - 2, day + 2)
            for each in google.world.exercises(person, number)
        ]
        assert names == sorted(f"headgate-fitbit-{each}.tcx" for each in exercises)
        assert len(exercises) >= 1
        records = {each.key: each.data for each in await app.records.list(NAME, fitbit)}
        known = {records[f"exercise:{each}"]["strava_activity_id"] for each in exercises}
        assert known == {each.id for each in made if each is not None}
        # Only the file whose fate nobody knew was sent twice
        sent = strava.requests.count(method="POST", path="/api/v3/uploads", status=201)
        assert sent <= len(exercises) + 3
        delivered = sum(job.summary.delivered for job in jobs)
        assert delivered == len(exercises)
