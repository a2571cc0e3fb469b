"""Headgate and every system that it ships, on the web: users with some of each thing they may have.

Nobody works, and no provider is asked: what a request needs is in the store.
"""

import copy
import functools
import gc
import importlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from headgate import App, JobState, NewItem, Record, System, TableBatch, Transient
from headgate.base.lazy import load
from headgate.connectors import Response
from headgate.discovery import installed_systems
from headgate.flow.connections.sealing import seal
from headgate.ports.connections.store import NewConnection
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.transport import Request
from headgate.secrets.keys import KeyRing
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.records import store as records
from headgate.systems.activity_streams.names import COLLECTION, activity_id
from headgate.systems.daily_checkins.tables import CheckinTable
from headgate.web.server import build
from tests.connecting import named_tokens, vault
from tests.web.callers import DAYS, ORIGIN, Client, Served
from tests.worlds import START, World, as_test, in_world

USERS = ("ada", "bob", "cleo")
HISTORY, SCHEDULE = "health-history", "daily-check-ins"
SOURCES = ("fitbit", "strava", "foursquare", "roam")
ACTIVE = [JobState.PENDING, JobState.PAUSED]
#: How many of each thing a user has.
COUNT = 3
#: What the systems do not know by themselves.
SETTINGS: Mapping[str, Any] = {
    "strava_client_id": "1",
    "strava_client_secret": "s",
    "fitbit_client_id": "1",
    "fitbit_client_secret": "s",
    "foursquare_client_id": "1",
    "foursquare_client_secret": "s",
}

Main = Callable[["Everything"], Awaitable[None]]


def shipped(folder: Path) -> list[System]:
    """All systems that are installed, configured."""
    found = [each.system for each in installed_systems()]
    return [
        each.with_settings(
            load(each.settings, field="settings")(**SETTINGS, notes_folder=folder / "notes"),
            public_url=ORIGIN,
        )
        for each in found
        if each is not None and isinstance(each.settings, str)
    ]


_OPERATIONS: dict[str, "Operation"] = {}


class NoWire:
    """A transport that leads nowhere."""

    async def send(self, request: Request) -> Response:
        raise Transient("connection refused")

    async def close(self) -> None:
        pass


class Everything(Served):
    """The application on the web, and what each of its users has."""

    def __init__(self, world: World, app: App, web: FastAPI) -> None:
        super().__init__(app, web)
        self.world = world
        #: By user: an id for each parameter of a path, of a thing of that user's.
        self.things: dict[str, dict[str, str]] = {}

    def operations(self) -> dict[str, "Operation"]:
        """Every route of the API, by its id; described once, which takes longer than most tests."""
        if not _OPERATIONS:
            document = self.web.openapi()
            for path, methods in document["paths"].items():
                for method, told in methods.items():
                    operation = Operation(document, method.upper(), path, told)
                    _OPERATIONS[operation.id] = operation
        return _OPERATIONS

    async def fill(self) -> None:
        """Give each user some of each thing."""
        for user in USERS:
            await self.app.users.seen(user)
            for source in SOURCES:
                await self._connect(user, source)
        for user in USERS:
            await self._fill_for(user)
        admin = await self.admin()
        tick = ""
        for _ in range(COUNT):
            await self.cancel_all()
            ran = await admin.post(f"/v1/schedules/{SCHEDULE}/run")
            assert ran.status_code == 202, ran.text
            tick = ran.json()["tick"]
            await self.world.clock.sleep(1)
        await self.cancel_all()
        for user in USERS:
            await self.start_anew(user)
            self.things[user]["tick"] = tick

    async def cancel_all(self) -> None:
        """Cancel whatever is active: a connection has one job of a sync at a time."""
        for job in await self.app.jobs.list(states=ACTIVE, limit=200):
            await self.app.jobs.cancel(job.id)

    async def start_anew(self, user: str) -> None:
        """Give a user an import and a run that are active, and have been paused before."""
        client = await self.client(user_id=user)
        started = await client.post("/v1/jobs", json=BODIES["start_job"])
        run = await client.post("/sync/start")
        assert (started.status_code, run.status_code) == (202, 202), started.text + run.text
        job_id, run_id = started.json()["id"], run.json()["run_id"]
        for each in (job_id, run_id):
            await self.app.jobs.pause(each)
            await self.app.jobs.resume(each)
        self.things.setdefault(user, {}).update(job_id=job_id, jobId=job_id, run_id=run_id)

    async def _connect(self, user: str, source: str) -> None:
        credentials = self.app._runtime.credentials
        assert credentials is not None
        the_id = f"{user}-{source}"
        sealed = seal(credentials.vault, named_tokens(user), the_id, user_id=user, source=source)
        new = NewConnection(
            id=the_id,
            user_id=user,
            source=source,
            external_id=the_id,
            scopes=(),
            expires_at=START + timedelta(days=1),
            sealed=sealed,
        )
        await SqlConnections(self.app._database).add(new)

    async def _fill_for(self, user: str) -> None:
        client = await self.client(user_id=user)
        for _ in range(COUNT):
            await self.cancel_all()
            await self.start_anew(user)
        items = [
            NewItem(
                id=activity_id(f"{user}-strava", number),
                collection=COLLECTION,
                user_id=user,
                connection_id=f"{user}-strava",
                external_id=str(number),
                start_time=START,
            )
            for number in range(COUNT)
        ]
        await self.app.items.register(items)
        stored = await self.app.jobs.get(self.things[user]["job_id"])
        own = [Record(f"{user}-{number}", {"n": number}) for number in range(COUNT)]
        work = ChunkWork(records=own)
        await self.app._database.write(lambda tx: records.store(tx, [(stored, work)], START))
        seconds = int(START.timestamp())
        checkins = TableBatch(
            user_id=user,
            connection_id=f"{user}-foursquare",
            sync="check-ins",
            job_id="job_1",
            records=[
                # Two of one second, and one of the second before.
                Record(
                    f"{user}-{number}",
                    {"id": f"{user}-{number}", "createdAt": seconds - number // 2},
                )
                for number in range(COUNT)
            ],
            at=START,
        )
        await self.app.write(lambda tx: CheckinTable().store(tx, checkins))
        prices = await client.post("/v1/price-history/batch", json=BODIES["receive_prices"])
        assert prices.json()["accepted"] == COUNT, prices.text
        self.things[user] |= {
            "connection_id": f"{user}-strava",
            "source_id": f"{user}-fitbit",
            "item_id": items[0].id,
            "activity_id": items[0].id,
            "check_in_id": f"{user}-0",
            "key": f"{user}-0",
            "user_id": user,
        }


class Operation:
    """A route of the API, as it is described."""

    def __init__(
        self, document: dict[str, Any], method: str, path: str, told: dict[str, Any]
    ) -> None:
        self.id: str = told["operationId"]
        self.method = method
        self.path = path
        self.answers: dict[str, Any] = told["responses"]
        self.parameters = {each["name"].lower(): each for each in told.get("parameters", [])}
        self.in_path = [each["name"] for each in self.parameters.values() if each["in"] == "path"]
        self._schemas = document["components"]["schemas"]
        body = told.get("requestBody")
        self.has_body = body is not None
        self.body = self._fields(body and body["content"]["application/json"]["schema"])
        shown = self.answers.get("200", {}).get("content", {}).get("application/json", {})
        self.shown = self._fields(shown.get("schema"))

    def _fields(self, schema: Any) -> set[str]:
        """The fields of an object."""
        if schema is None:
            return set()
        if "anyOf" in schema:
            schema = schema["anyOf"][0]
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        return set(schema.get("properties", {}))

    @property
    def is_list(self) -> bool:
        return "next_cursor" in self.shown

    @property
    def takes_key(self) -> bool:
        """Whether a request that is sent twice is carried out once."""
        return "idempotency-key" in self.parameters

    async def call(
        self,
        client: Client,
        things: Mapping[str, str],
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Any:
        """Call it, of these things."""
        path = self.path.replace("/{name}", f"/{SCHEDULE if 'schedules' in self.path else HISTORY}")
        for name in self.in_path:
            path = path.replace(f"{{{name}}}", things.get(name, ""))
        if "key" in self.in_path:
            query.setdefault("connection_id", things["source_id"])
        if "q" in self.parameters:
            query.setdefault("q", "anything")
        if body is None:
            body = BODIES.get(self.id)
        return await client.request(
            self.method, path, params=query or None, json=body, headers=headers
        )


_PRICES = [
    {
        "productId": str(number),
        "sourceId": "shop-1",
        "scrapedAt": "2025-12-31T10:00:00Z",
        "price": 9.99,
        "currency": "EUR",
    }
    for number in range(COUNT)
]
#: A body for each route that needs one.
BODIES: dict[str, Any] = {
    "start_job": {"source": "fitbit", "destination": "strava", **DAYS},
    "start_jobs": {"jobs": [{"sync": HISTORY, "mode": "history", **DAYS}]},
    "start_sync_job": {"mode": "history", **DAYS},
    "start_historical_job": {
        "source": "fitbit",
        "destination": "strava",
        "startDate": DAYS["start_date"],
        "endDate": DAYS["end_date"],
    },
    "make_connect_link": {"source": "strava"},
    "connect_with_token": {"source": "roam", "token": "t", "external_id": "ada-roam"},
    "set_user_plan": {"plan": "premium"},
    "set_user_preferences": {"time": "06:30"},
    "receive_prices": {"runId": "run-1", "normalized": _PRICES},
}


def serve_everything(folder: Path, main: Main) -> None:
    """Run `main` with all of it."""
    file, things, filled_s = _filled()

    async def opened(world: World) -> None:
        shutil.copyfile(file, world._file)
        await world.clock.sleep(filled_s)
        everything = await _everything(world, folder)
        everything.things = copy.deepcopy(things)
        await main(everything)

    in_world(folder, opened)


with_everything = as_test(serve_everything)


@functools.cache
def _filled() -> tuple[Path, dict[str, dict[str, str]], float]:
    """A database with what the users have, what that is, and how long it took: made once."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-everything-"))

    async def opened(world: World) -> tuple[Path, dict[str, dict[str, str]], float]:
        everything = await _everything(world, folder)
        await everything.app.migrate()
        await everything.fill()
        await everything.app.close()
        return world._file, everything.things, world.clock.monotonic()

    filled = in_world(folder, opened)
    # What stays imported need not be looked at again at the end of every run in virtual time.
    importlib.import_module("lancedb")
    gc.collect()
    gc.freeze()
    return filled


async def _everything(world: World, folder: Path) -> Everything:
    app = await world.app(systems=shipped(folder), transport=NoWire(), vault=vault())
    everything = Everything(world, app, build(app, keys=KeyRing.for_demo(), public_url=ORIGIN))
    # What is asked here in an instant of virtual time.
    limits = everything.web.state.api.limits
    limits._per_min = limits._rate = 1e9
    return everything
