"""A connector over real sockets: Strava emulated on loopback, the default transport and vault."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from headgate import ApiSource, App, Chunk, Context, JobState, Reason, Sync
from headgate.base.clock import SystemClock
from headgate.model.states import JOB
from headgate.net.addresses import AddressRules, parse_networks
from headgate.net.aiohttp_transport import AiohttpTransport
from headgate.ports.transport import Request
from headgate.types import Connection, Job
from headgate_sandbox.kit.faults import FaultKind
from headgate_sandbox.serving import serving
from headgate_sandbox.strava.sandbox import Strava
from tests.connecting import BACK, SESSION, Activities, key_entries, strava_auth

PRIVATE = "127.0.0.0/8"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_KEYS", key_entries("k1")[0])
    monkeypatch.setenv("HEADGATE_PRIVATE_NETWORKS", PRIVATE)
    return monkeypatch


def source_at(base_url: str) -> Activities:
    auth = strava_auth(
        authorize_url=f"{base_url}/oauth/authorize", token_url=f"{base_url}/oauth/token"
    )
    return Activities("strava", base_url=f"{base_url}/api/v3", auth=auth)


async def consented(url: str) -> dict[str, str]:
    transport = AiohttpTransport(AddressRules(private=parse_networks(PRIVATE)))
    try:
        page = await transport.send(Request(method="GET", url=url))
    finally:
        await transport.close()
    return dict(parse_qsl(urlsplit(page.headers.get("location") or "").query))


async def connected(app: App) -> Connection:
    url = await app.connections.start("strava", user_id="ada", session=SESSION, redirect_uri=BACK)
    return await app.connections.finish(
        user_id="ada", session=SESSION, redirect_uri=BACK, query=await consented(url)
    )


async def worked(app: App, job: Job) -> Job:
    """Work until the job has ended."""
    supervisor = app.supervisor()
    await supervisor.start()
    try:
        clock = SystemClock()
        while (job := await app.jobs.get(job.id)).state not in JOB.terminal:
            await clock.sleep(0.02)
    finally:
        await supervisor.stop()
    return job


async def test_an_account_is_connected_and_read_over_http(environment: Any, tmp_path: Path) -> None:
    strava = Strava(SystemClock(), activities=70, stream_points=10)
    with serving(strava) as base_url:
        app = App(
            f"sqlite:///{tmp_path}/jobs.db", syncs=[Sync(name="all", source=source_at(base_url))]
        )
        async with app:
            connection = await connected(app)
            # A token that has ended is renewed on the way.
            strava.faults.next(FaultKind.TOKEN_EXPIRED, path="/api/v3/*")
            submitted = await app.jobs.submit("all", user_id="ada", connection_id=connection.id)
            job = await worked(app, submitted.job)

            assert (job.state, job.summary.records) == (JobState.SUCCESS, 70)
            assert (await app.connections.get(connection.id)).version == 2


async def test_loopback_is_not_called_unless_the_settings_allow_it(
    environment: Any, tmp_path: Path
) -> None:
    environment.delenv("HEADGATE_PRIVATE_NETWORKS")

    class Plain(ApiSource):
        async def read(self, ctx: Context) -> Chunk:
            await ctx.http.get("/x")
            return Chunk()

    strava = Strava(SystemClock(), activities=1, stream_points=10)
    with serving(strava) as base_url:
        source = Plain("plain", base_url=base_url)
        async with App(
            f"sqlite:///{tmp_path}/jobs.db", syncs=[Sync(name="all", source=source)]
        ) as app:
            submitted = await app.jobs.submit("all", user_id="ada")
            job = await worked(app, submitted.job)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.REFUSED)
    assert "its address is loopback" in (job.error or "")
    assert strava.requests.total == 0
