"""Connecting and reconnecting in a real browser, over the pages of the emulated Strava and back."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from headgate import App, JobState, Sync
from headgate.base.clock import SystemClock
from headgate.model.states import JOB, ConnectionState
from headgate_sandbox.serving import serving
from headgate_sandbox.strava import access
from headgate_sandbox.strava.sandbox import Strava
from tests.browser.conftest import OpenPage
from tests.browser.rig import Rig, Watched, picture, rig
from tests.connecting import Activities, key_entries, strava_auth
from tests.web.pages.imports import USER

pytestmark = pytest.mark.asyncio(loop_scope="session")

ACTIVITIES = 50
#: A wait for something that is sure to come: reached only when the test fails.
SOON_S = 30.0


@pytest.fixture
def strava() -> Strava:
    """A provider that approves whatever it is asked."""
    return Strava(SystemClock(), activities=ACTIVITIES, stream_points=10)


@pytest.fixture
def at_strava(strava: Strava, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where it is served; and applications may go there."""
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(key_entries("k1")))
    monkeypatch.setenv("HEADGATE_PRIVATE_NETWORKS", "127.0.0.0/8")
    with serving(strava) as address:
        yield address


@pytest_asyncio.fixture(loop_scope="session")
async def served(file: Path, at_strava: str) -> AsyncIterator[Rig]:
    """The pages of an import from that Strava, and a worker that does it."""

    def syncs(url: str) -> list[Sync]:
        auth = strava_auth(
            authorize_url=f"{at_strava}/oauth/authorize",
            token_url=f"{at_strava}/oauth/token",
            redirect_uris=(f"{url}/connected/strava",),
        )
        base_url = f"{at_strava}/api/v3"
        source = Activities("strava", base_url=base_url, auth=auth, title="Strava")
        return [Sync(name="activities", source=source)]

    async with rig(file, SystemClock(), syncs) as made:
        worker = made.app.supervisor()
        await worker.start()
        try:
            yield made
        finally:
            await worker.stop()


async def ended(app: App, job_id: str) -> JobState:
    """Where the job ends, once it has."""
    clock = SystemClock()
    until = clock.monotonic() + SOON_S
    while (job := await app.jobs.get(job_id)).state not in JOB.terminal:
        assert clock.monotonic() < until, f"still {job.state}"
        await clock.sleep(0.02)
    return job.state


async def test_reconnecting_goes_out_and_back_and_the_import_goes_on(
    served: Rig, open_page: OpenPage, strava: Strava, watched: Watched
) -> None:
    # Given an account that was connected by a link
    page = await open_page()
    await page.goto(served.url + served.links.connect_path(source="strava", user_id=USER))
    await expect(page.get_by_role("heading")).to_have_text("Strava is connected")
    await picture(page, "connected")
    [connection] = await served.app.connections.of_user(USER)

    # And an import that failed because the user took our access back
    strava.tokens.revoke(str(strava.find_user(None)), access.CLIENT_ID)
    submitted = await served.app.jobs.submit(
        "activities", user_id=USER, connection_id=connection.id
    )
    job_id = submitted.job.id
    assert await ended(served.app, job_id) is JobState.FAILED
    [connection] = await served.app.connections.of_user(USER)
    assert connection.state is ConnectionState.NEEDS_REAUTH
    await page.goto(served.page_of(job_id))
    await expect(page.get_by_role("heading")).to_have_text(
        "Strava needs you to sign in again. Nothing is lost."
    )
    await expect(page.get_by_role("button")).to_have_count(0)
    await picture(page, "reconnect")

    # When the user signs in again
    await page.get_by_role("link", name="Reconnect Strava").click()

    # Then they are back on the page, and the import goes on to its end
    await page.wait_for_url(f"{served.url}/p/*")
    assert await ended(served.app, job_id) is JobState.SUCCESS
    await page.reload()
    await expect(page.get_by_role("heading")).to_have_text("Done.")
    await expect(page.locator("#tile-imported dd")).to_have_text(str(ACTIVITIES))
    [again] = await served.app.connections.of_user(USER)
    assert (again.id, again.state) == (connection.id, ConnectionState.ACTIVE)
    assert await page.context.cookies() == []
    assert watched.complaints == []
