"""A whole import as a product does it: over HTTP, in a browser's steps.

Everything is real but the providers and their hurry: no pacing, and limits wide enough not to wait.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp

from headgate import App, Budget, Limit, Secret, paid_history
from headgate.base.clock import SystemClock
from headgate.base.listening import listener_url, listening
from headgate.connectors.fitbit import fitbit
from headgate.connectors.strava import strava
from headgate.model.api_key import Role
from headgate.secrets.keys import KeyRing
from headgate.secrets.vault import AesVault
from headgate.systems.health_history import system
from headgate.systems.health_history.syncs import LIVE, health_history, health_history_live
from headgate.toolkit.serving.http_server import serve_http
from headgate.web.server import build
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.serving import serving
from headgate_sandbox.strava import access as strava_access
from headgate_sandbox.strava.limits import Limits
from headgate_sandbox.strava.sandbox import Strava
from tests.connecting import key_entries
from tests.health import SPORTY
from tests.systems.loopback import loopback_transport

DAYS = 2


class Product:
    """A served application, both its providers, and a client with an admin's key."""

    def __init__(self, app: App, url: str, google: GoogleHealth, strava: Strava, key: str) -> None:
        self.app = app
        self.url = url
        self.google = google
        self.strava = strava
        self.session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"})

    async def call(self, method: str, path: str, **more: Any) -> tuple[int, Any, Any]:
        async with self.session.request(method, self.url + path, **more) as answer:
            return answer.status, await answer.json() if answer.content_length else None, answer

    async def connect(self, source: str) -> None:
        """Open the link in a browser of its own: to the provider, and back."""
        body = {"source": source, "user_id": "ada"}
        status, told, _ = await self.call("POST", "/v1/connections", json=body)
        assert status == 200, told
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            async with browser.get(told["url"]) as page:
                assert (page.status, "is connected" in await page.text()) == (200, True)

    async def page(self, url: str) -> str:
        async with aiohttp.ClientSession() as browser, browser.get(url) as page:
            assert page.status == 200
            return await page.text()


@asynccontextmanager
async def product(address: str) -> AsyncIterator[Product]:
    clock = SystemClock()
    google = GoogleHealth(clock, days=DAYS + 3, shares=SPORTY)
    wide = Limits(overall_15min=2000, overall_day=20_000, read_15min=2000, read_day=20_000)
    there = Strava(clock, activities=0, processing_s=0.0, limits=wide)
    keys = KeyRing.parse(Secret(",".join(key_entries("k1"))))
    with (
        serving(google) as google_url,
        serving(there) as strava_url,
        listening("127.0.0.1", 0) as listener,
    ):
        url = listener_url(listener)
        clients: dict[str, Any] = {
            "fitbit": fitbit(
                client_id=google_access.CLIENT_ID,
                client_secret=Secret(google_access.CLIENT_SECRET),
                redirect_uris=(f"{url}/connected/fitbit",),
                budget=Budget("fitbit", [Limit(300, per="min")], paced=False),
                url=google_url,
            ),
            "strava": strava(
                client_id=strava_access.CLIENT_ID,
                client_secret=Secret(strava_access.CLIENT_SECRET),
                redirect_uris=(f"{url}/connected/strava",),
                budget=Budget("strava", [Limit(2000, per="15min")], paced=False),
                url=strava_url,
            ),
        }
        transport = loopback_transport(google_url, strava_url)
        app = App(
            address,
            systems=[
                system.with_syncs([health_history(**clients), health_history_live(**clients)])
            ],
            entitlement=paid_history,
            vault=AesVault(keys),
            transport=transport,
        )
        async with app, serve_http(build(app, keys=keys, public_url=url), listener, stop_s=1):
            _, key = await app.api_keys.make("product", role=Role.ADMIN)
            here = Product(app, url, google, there, key.reveal())
            try:
                yield here
            finally:
                await here.session.close()
                await transport.close()


async def test_a_user_s_past_is_imported_and_followed(postgres_address: str) -> None:
    async with product(postgres_address) as site:
        yesterday = site.app.clock.now().date() - timedelta(days=1)
        asked = {
            "userId": "ada",
            "source": "fitbit",
            "destination": "strava",
            "startDate": str(yesterday - timedelta(days=DAYS - 1)),
            "endDate": str(yesterday),
        }

        # Given a user who pays, and has connected both accounts
        status, problem, _ = await site.call("POST", "/jobs", json=asked)
        assert (status, problem["code"]) == (409, "not_connected")
        for source in ("fitbit", "strava"):
            await site.connect(source)
        status, problem, _ = await site.call("POST", "/jobs", json=asked)
        assert (status, problem["code"]) == (402, "plan_required")
        assert (await site.call("GET", "/jobs"))[1]["data"] == []
        # To keep recent days fresh needs no plan.
        wanted = {"user_id": "ada", "mode": "since"}
        status, live, _ = await site.call("POST", f"/v1/syncs/{LIVE}/jobs", json=wanted)
        assert (status, live["lane"]) == (202, "hot")
        assert (await site.call("POST", f"/v1/jobs/{live['id']}/cancel"))[0] == 200
        await site.call("PUT", "/v1/users/ada", json={"plan": "premium"})

        # When the import is started, by a client that lost the first answer
        started = [
            await site.call("POST", "/jobs", json=asked, headers={"Idempotency-Key": "once"})
            for _ in range(2)
        ]
        assert [status for status, _, _ in started] == [202, 202]
        assert started[0][1]["jobId"] == started[1][1]["jobId"]
        job_id = started[0][1]["jobId"]
        supervisor = site.app.supervisor()
        await supervisor.start()
        try:
            status, job, _ = await site.call("GET", f"/jobs/{job_id}/status")
            while job["status"] in ("PENDING", "RUNNING"):
                await site.app.clock.sleep(0.2)
                status, job, _ = await site.call("GET", f"/jobs/{job_id}/status")
        finally:
            await supervisor.stop()

        # Then every exercise is at Strava once, the days' sums are here, and the page says so
        assert (job["status"], job["percent"], job["gaps"]) == ("COMPLETED", 100, [])
        [athlete] = site.strava.world.athlete_ids
        assert site.strava.world.archive(athlete).size == DAYS
        status, ours, _ = await site.call("GET", f"/v1/jobs/{job_id}")
        assert (ours["counts"]["found"], ours["counts"]["imported"]) == (DAYS, DAYS)
        records = await site.app.records.list(ours["sync"], ours["connection_id"])
        assert len([each for each in records if each.key.startswith("day:")]) == DAYS
        _, link, _ = await site.call("POST", f"/v1/jobs/{job_id}/link", json={})
        page = await site.page(link["url"])
        assert "Done." in page
        assert "100%" in page
