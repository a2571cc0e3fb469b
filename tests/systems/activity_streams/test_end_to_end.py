"""Streams of an athlete's activities, live and backfill, on Postgres in real time.

Everything is real but Strava and its hurry: no pacing, and limits wide enough not to wait.
"""

from contextlib import AsyncExitStack
from datetime import timedelta

from headgate import App, Budget, Limit, Secret
from headgate.base.clock import SystemClock
from headgate.base.encoding import from_json
from headgate.connectors.strava import strava
from headgate.model.states import JOB, ItemState
from headgate.systems.activity_streams.names import COLLECTION
from headgate.systems.activity_streams.service import ActivityStreams
from headgate.systems.activity_streams.syncs import activity_streams
from headgate_sandbox.serving import serving
from headgate_sandbox.strava import access
from headgate_sandbox.strava.limits import Limits
from headgate_sandbox.strava.sandbox import Strava
from tests.connecting import vault
from tests.systems.loopback import connect_by_browser, loopback_transport

BACK = "http://127.0.0.1:1/connected/strava"
ACTIVITIES = 12


async def until_done(app: App, job_id: str) -> None:
    while (job := await app.jobs.get(job_id)).state not in JOB.terminal:
        await app.clock.sleep(0.1)
    assert job.state.value == "success", (job.reason, job.error)


async def test_every_stream_is_fetched_once_and_served(postgres_address: str) -> None:
    wide = Limits(overall_15min=2000, overall_day=20_000, read_15min=2000, read_day=20_000)
    there = Strava(SystemClock(), activities=ACTIVITIES, stream_points=60, limits=wide)
    with serving(there) as url:
        api = strava(
            client_id=access.CLIENT_ID,
            client_secret=Secret(access.CLIENT_SECRET),
            redirect_uris=(BACK,),
            budget=Budget("strava", [Limit(2000, per="15min")], paced=False),
            url=url,
        )
        transport = loopback_transport(url)
        app = App(postgres_address, syncs=activity_streams(api), vault=vault(), transport=transport)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(transport.close)
            await stack.enter_async_context(app)
            await connect_by_browser(app, "strava", BACK)
            supervisor = app.supervisor()
            await supervisor.start()
            try:
                # When the athlete asks for what is new, and then for all the rest
                streams = ActivityStreams(app)
                await until_done(app, (await streams.sync_now(user_id="ada")).job.id)
                await until_done(app, (await streams.backfill(user_id="ada")).job.id)
            finally:
                await supervisor.stop()

            # Then each activity has its streams, or is known to have none, by one request each
            found = await app.items.list(COLLECTION, user_id="ada", limit=100)
            assert len(found) == ACTIVITIES
            assert {item.state for item in found} <= {ItemState.SUCCESS, ItemState.UNAVAILABLE}
            had = [item for item in found if item.state is ItemState.SUCCESS]
            asked = [
                seen for seen in there.requests.entries if (seen.path or "").endswith("/streams")
            ]
            assert len(asked) == len(had) > 0

            served = await app.items.serve(had[0].id, user_id="ada")
            assert served.document is not None
            data = from_json(served.document.content())
            assert isinstance(data, dict)
            assert served.document.attributes["point_count"] == len(data["time"])
            assert await app.items._store.count_limited(COLLECTION, within=timedelta(days=1)) == 0
