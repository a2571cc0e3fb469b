"""Somebody with both accounts, and what the providers have counted."""

import asyncio
from collections.abc import Callable
from typing import Any

from headgate import App
from headgate.types import Connection, Job
from tests.health import SPORTY, Site, all_records, start
from tests.worlds import World

UPLOADS = "/api/v3/uploads"


def sporty(world: World, **more: Any) -> Site:
    """Somebody with an exercise on every day that is over."""
    return Site(world, **{"google": {"shares": SPORTY}, **more})


async def connected(site: Site, **parts: Any) -> tuple[Site, App, Connection, Connection]:
    """A process where the user has connected both accounts, Fitbit's and Strava's."""
    app = await site.app(**parts)
    return site, app, *await site.connect_both(app)


async def imported(world: World, app: App, days: int) -> Job:
    """An import of the last so many days, which a worker of this process has ended."""
    job = await start(app, days)
    await app.supervisor().start()
    return await world.until(app, job.id)


def uploads(site: Site) -> int:
    """Files that Strava took in."""
    return site.strava.requests.count(method="POST", path=UPLOADS, status=201)


async def until(world: World, done: Callable[[], bool]) -> None:
    """Let virtual time pass until a function says so."""
    async with asyncio.timeout(1e6):
        while not done():
            await world.clock.sleep(0.05)


async def check_what_is_remembered(site: Site, app: App, connection_id: str) -> None:
    """Each activity at Strava is that of its exercise's record."""
    records = await all_records(app, connection_id)
    for activity in site.activities():
        number = (activity.external_id or "").split("-")[2].removesuffix(".tcx")
        assert records[f"exercise:{number}"].data["strava_activity_id"] == activity.id
