"""Activity streams against the emulated Strava, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from headgate import App, JobState, NotFound
from headgate.connectors.strava.streams import KEYS
from headgate.model.item import Item
from headgate.model.states import ItemState
from headgate.ports.items import NewItem
from headgate.systems.activity_streams import system
from headgate.systems.activity_streams.events import StravaEvent
from headgate.systems.activity_streams.names import COLLECTION, STREAMS, activity_id
from headgate.systems.activity_streams.service import ActivityStreams
from headgate.systems.activity_streams.syncs import activity_streams
from headgate.types import Connection, Job
from headgate_sandbox.strava.activity import Activity as Sport
from headgate_sandbox.strava.activity import Shares
from headgate_sandbox.strava.streams import Points
from tests.connecting import Site, vault
from tests.health import strava_api
from tests.worlds import World, in_world

ALL_STREAMS = "/api/v3/activities/*/streams"
ACTIVE = (JobState.PENDING, JobState.RUNNING, JobState.PAUSED, JobState.CANCELLING)
MANY = Shares(manual=0.2)
NONE_MANUAL = Shares(manual=0.0)


class Place:
    """A Strava, an application with the two syncs, and an athlete who is connected."""

    def __init__(self, site: Site, app: App, connection: Connection) -> None:
        self.site = site
        self.strava = site.strava
        self.clock = site.world.clock
        self.app = app
        self.connection = connection
        self.streams = ActivityStreams(app)

    # What Strava has.

    def sports(self, athlete_id: int | None = None) -> list[Sport]:
        """Everything the athlete has done, the oldest first."""
        world = self.strava.world
        archive = world.archive(athlete_id or world.athlete_ids[0])
        part = archive.between(None, None)
        return [archive.at(part, place) for place in range(part.size)]

    def channels(self, sport: Sport) -> dict[str, object]:
        """What Strava has measured of it."""
        world = self.strava.world
        made = Points(world.seed, sport, world.points).make(KEYS)
        return {name: stream["data"] for name, stream in made.items()}

    def change(self, sport: Sport, **fields: Any) -> None:
        """Strava tells something else of it from now on."""
        archive = self.strava.world.archive(sport.athlete_id)
        changed = msgspec.structs.replace(sport, **fields)
        find, at = archive.find, archive.at

        def instead(found: Any) -> Any:
            return changed if found is not None and found.id == sport.id else found

        vars(archive)["find"] = lambda number: instead(find(number))
        vars(archive)["at"] = lambda part, place: instead(at(part, place))

    def event(self, sport: Sport, aspect: str = "create", **fields: Any) -> StravaEvent:
        given = {
            "object_type": "activity",
            "object_id": sport.id,
            "aspect_type": aspect,
            "owner_id": sport.athlete_id,
            "event_time": int(self.clock.now().timestamp()),
        }
        return StravaEvent(**{**given, **fields})

    # What has become of it here.

    def id_of(self, sport: Sport) -> str:
        return activity_id(self.connection.id, sport.id)

    async def item(self, sport: Sport) -> Item:
        return (await self.streams.find(self.id_of(sport))).item

    async def states(self) -> dict[str, int]:
        """How many there are in each state, where there are any."""
        return {name: count for name, count in (await self.streams.stats()).states.items() if count}

    async def fetched(self, sport: Sport) -> object:
        """The streams that are served."""
        served = await self.streams.streams(self.id_of(sport), user_id="ada")
        assert served.document is not None, served.item
        return msgspec.json.decode(served.document.stored.content())

    async def until(self, job: Job, *states: JobState) -> Job:
        return await self.site.world.until(self.app, job.id, *states)

    async def until_fetched(self, sport: Sport, *, within_s: float) -> Item:
        """Let time pass until its streams are there; fails where that takes longer."""
        began = self.clock.monotonic()
        async with asyncio.timeout(within_s):
            while True:
                try:
                    if (item := await self.item(sport)).state is ItemState.SUCCESS:
                        return item
                except NotFound:
                    pass
                # Ever longer steps: minutes of virtual time should not take thousands of looks.
                await self.clock.sleep(max(0.1, (self.clock.monotonic() - began) / 20))

    async def quiet(self) -> None:
        """Until no job is active."""
        async with asyncio.timeout(1e6):
            while await self.app.jobs.list(states=ACTIVE):
                await self.clock.sleep(5)

    def asked(self, ending: str) -> int:
        """How many requests went to paths that end so."""
        return sum(urlsplit(each.url).path.endswith(ending) for each in self.site.wire.sent)

    async def note(self, sport: Sport, *, external_id: str | None) -> None:
        """It is known of, without a list."""
        new = NewItem(
            id=self.id_of(sport),
            collection=COLLECTION,
            user_id="ada",
            connection_id=self.connection.id,
            external_id=external_id,
            start_time=self.clock.now(),
        )
        await self.app.items.register([new])

    async def fetch_noted(self) -> Job:
        """A backfill that lists nothing."""
        submitted = await self.app.jobs.submit(
            STREAMS,
            user_id="ada",
            connection_id=self.connection.id,
            lane="cold",
            options={"listing": False},
        )
        return await self.until(submitted.job)

    async def import_all(self) -> Job:
        """List everything and fetch the rest."""
        live = await self.streams.sync_now(user_id="ada")
        await self.until(live.job)
        return await self.until((await self.streams.backfill(user_id="ada")).job)


Main = Callable[[Place], Coroutine[Any, Any, None]]


def in_place(folder: Path, main: Main, *, works: bool = True, **options: Any) -> None:
    """Run `main` in a world of its own, with a worker."""

    async def opened(world: World) -> None:
        site = Site(world, **{"shares": NONE_MANUAL, "activities": 10, **options})
        streams = system.with_syncs(activity_streams(strava_api()))
        app = await world.app(systems=[streams], transport=site.wire, vault=vault())
        place = Place(site, app, await site.connect(app))
        supervisor = app.supervisor()
        if works:
            await supervisor.start()
        try:
            await main(place)
        finally:
            await supervisor.stop()

    in_world(folder, opened)
