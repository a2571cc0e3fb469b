"""Daily check-ins against the emulated Foursquare, in virtual time and on both databases."""

import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from pydantic import SecretStr

from headgate import App, Schedule, Secret, System, SystemClock, WorkerSettings
from headgate.base.clock import Clock
from headgate.connectors.foursquare import FoursquareArguments, checkins, foursquare, paging
from headgate.connectors.foursquare.api import API_URL, AUTH_URL, NAME
from headgate.connectors.foursquare.paging import PAGE_MAX
from headgate.ports.transport import Request
from headgate.secrets.keys import KeyRing
from headgate.systems.daily_checkins import system
from headgate.systems.daily_checkins.schedules import schedules
from headgate.systems.daily_checkins.service import CheckIn, CheckIns
from headgate.systems.daily_checkins.settings import DailyCheckinsSettings
from headgate.systems.daily_checkins.syncs import daily_checkins
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import Connection, Job
from headgate.web.server import build
from headgate_sandbox.foursquare import access
from headgate_sandbox.foursquare.sandbox import Foursquare
from tests.connecting import SESSION, Wire, vault
from tests.web.callers import ORIGIN, Served
from tests.worlds import World, in_world

CHECKINS = "/v2/users/self/checkins"
BACK = f"{ORIGIN}/connected/foursquare"


def api(**given: Any) -> FoursquareArguments:
    """The client that the sandbox knows."""
    return foursquare(
        client_id=access.CLIENT_ID,
        client_secret=Secret(access.CLIENT_SECRET),
        redirect_uris=(BACK,),
        **given,
    )


def check_ins_system(**given: Any) -> System:
    """The system, with that client."""
    return system.with_syncs([daily_checkins(api(**given))])


class Place:
    """A Foursquare, an application with the system, and users who have connected accounts."""

    def __init__(self, sandbox: Foursquare, wire: Wire, app: App) -> None:
        self.foursquare = sandbox
        self.wire = wire
        self.app = app
        self.check_ins = CheckIns(app)
        self._accounts = itertools.count()

    @property
    def clock(self) -> Clock:
        return self.app.clock

    async def connect(
        self, user_id: str = "ada", *, account: str | None = None, **more: Any
    ) -> Connection:
        """Connect a user's account, over the provider's page and back; by default the next one."""
        url = await self.app.connections.start(
            NAME, user_id=user_id, session=SESSION, redirect_uri=BACK, **more
        )
        account = account or str(self.foursquare.world.user_ids[next(self._accounts)])
        page = await self.wire.send(Request(method="GET", url=f"{url}&sandbox_user={account}"))
        assert page.status == 302, page.text
        location = urlsplit(page.headers.get("location") or "")
        return await self.app.connections.finish(
            user_id=user_id,
            session=SESSION,
            redirect_uri=BACK,
            query=dict(parse_qsl(location.query)),
        )

    def ids(self, connection: Connection) -> set[str]:
        """The ids of everything that the account has at Foursquare."""
        timeline = self.foursquare.world.timeline(str(connection.external_id))
        part = timeline.between(None, None)
        return {timeline.at(part, place).id for place in range(part.size)}

    async def stored(self, user_id: str = "ada") -> list[CheckIn]:
        """Everything that is stored of a user, the newest first."""
        found: list[CheckIn] = []
        while True:
            before = None
            if found:
                before = f"{int(found[-1].created_at.timestamp())}-{found[-1].id}"
            page = await self.check_ins.list(user_id=user_id, limit=1000, before=before)
            if not page:
                return found
            found += page

    async def stored_ids(self, user_id: str = "ada") -> set[str]:
        found = [each.id for each in await self.stored(user_id)]
        assert len(found) == len(set(found))
        return set(found)

    @property
    def asked(self) -> int:
        """How many requests for check-ins were sent."""
        return self.wire.count(CHECKINS)


class WorldPlace(Place):
    """The same in virtual time."""

    def __init__(self, world: World, sandbox: Foursquare, wire: Wire, app: App) -> None:
        super().__init__(sandbox, wire, app)
        self.world = world

    async def start(self, user_id: str = "ada", **more: Any) -> Job:
        """An import, started."""
        return (await self.check_ins.start_import(user_id=user_id, **more)).job

    async def run(self, user_id: str = "ada", **more: Any) -> Job:
        """An import, until it has ended."""
        job = await self.start(user_id, **more)
        return await self.world.until(self.app, job.id)


Main = Callable[[WorldPlace], Coroutine[Any, Any, None]]


def _nightly(active_within: str) -> Sequence[Schedule]:
    settings = DailyCheckinsSettings(
        check_ins_active_within=active_within,
        foursquare_client_id=access.CLIENT_ID,
        foursquare_client_secret=SecretStr(access.CLIENT_SECRET),
    )
    return schedules(settings)


def in_place(
    folder: Path,
    main: Main,
    *,
    works: bool = True,
    lease_s: float = 60.0,
    scheduled: bool = False,
    active_within: str = "30d",
    page: int = PAGE_MAX,
    **options: Any,
) -> None:
    """Run `main` in a world of its own, with a worker, and with the nightly schedule if wanted.

    Hours of it are quicker with long leases, which are not extended as often; a history is shorter
    if a page has fewer check-ins.
    """

    async def opened(world: World) -> None:
        sandbox = Foursquare(world.clock, **{"users": 3, "checkins": 10, **options})
        wire = Wire(AsgiTransport({API_URL: sandbox, AUTH_URL: sandbox}, world.clock))
        app = await world.app(
            systems=[check_ins_system()],
            schedules=_nightly(active_within) if scheduled else (),
            transport=wire,
            vault=vault(),
            worker=WorkerSettings(lease_s=lease_s),
        )
        supervisor = app.supervisor()
        if works:
            await supervisor.start()
        try:
            await main(WorldPlace(world, sandbox, wire, app))
        finally:
            await supervisor.stop()

    with pytest.MonkeyPatch.context() as patch:
        for module in (paging, checkins):
            patch.setattr(module, "PAGE_MAX", page)
        in_world(folder, opened)


class ServedPlace(Place, Served):
    """The same on the web."""

    def __init__(self, sandbox: Foursquare, wire: Wire, app: App) -> None:
        Place.__init__(self, sandbox, wire, app)
        Served.__init__(self, app, build(app, keys=KeyRing.for_demo(), public_url=ORIGIN))

    async def ended(self, job_id: str) -> Job:
        """The job, once it has ended."""
        while not (job := await self.app.jobs.get(job_id)).ended:
            await self.app.clock.sleep(0.02)
        return job


@asynccontextmanager
async def on_the_web(
    address: str, *, works: bool = True, **options: Any
) -> AsyncIterator[ServedPlace]:
    """The system on the database at that address, on the web and with a worker."""
    clock = SystemClock()
    sandbox = Foursquare(clock, **{"users": 3, "checkins": 10, **options})
    wire = Wire(AsgiTransport({API_URL: sandbox, AUTH_URL: sandbox}, clock))
    app = App(
        address,
        systems=[check_ins_system()],
        transport=wire,
        vault=vault(),
        worker=WorkerSettings(grace_s=1),
    )
    await app.migrate()
    async with app:
        supervisor = app.supervisor()
        if works:
            await supervisor.start()
        try:
            yield ServedPlace(sandbox, wire, app)
        finally:
            await supervisor.stop()
