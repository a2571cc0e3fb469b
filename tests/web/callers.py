"""Applications on the web, in virtual time, and clients that call them in process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from headgate import App, Chunk, Context, Mode, NoData, Record, Sync, System
from headgate.base.clock import Clock
from headgate.discovery import installed_systems
from headgate.model.api_key import Role
from headgate.secrets.keys import KeyRing
from headgate.web.server import build
from tests.worlds import ScriptedSource, World, as_test, in_world

ORIGIN = "http://headgate.test"
#: Ten days that have passed when a world begins.
DAYS = {"start_date": "2025-12-01", "end_date": "2025-12-10"}


async def read_day(ctx: Context) -> Chunk:
    """One record a day, and on Sundays none."""
    assert ctx.day is not None
    if ctx.day.weekday() == 6:
        raise NoData
    return Chunk(records=[Record(f"{ctx.user_id}:{ctx.day}", {"steps": 1})])


def history(name: str = "fitbit", read: Any = read_day, **more: Any) -> Sync:
    """A sync of a source of that name, in history mode."""
    source = ScriptedSource(read, name)
    return Sync(name=f"{name}-days", source=source, modes=[Mode.HISTORY], **more)


class Served:
    """An application and its HTTP face."""

    def __init__(self, app: App, web: FastAPI) -> None:
        self.app = app
        self.web = web
        self.keys = app.api_keys

    @property
    def clock(self) -> Clock:
        return self.app.clock

    async def work_off(self, job_id: str) -> None:
        """Let a worker work until the job has ended."""
        worker, began = self.app.supervisor(), self.clock.monotonic()
        await worker.start()
        while not (await self.app.jobs.get(job_id)).ended:
            await self.clock.sleep(max(0.05, (self.clock.monotonic() - began) / 50))
        await worker.stop()

    async def token(self, role: Role = Role.USER, user_id: str | None = "ada") -> str:
        """A new key."""
        owner = None if role is Role.ADMIN else user_id
        _, token = await self.keys.make("for a test", role=role, user_id=owner)
        return token.reveal()

    async def client(self, role: Role = Role.USER, user_id: str | None = "ada") -> Client:
        """A client that holds a new key."""
        return self.with_headers({"Authorization": f"Bearer {await self.token(role, user_id)}"})

    async def admin(self) -> Client:
        return await self.client(Role.ADMIN, None)

    def with_headers(self, headers: Any = None) -> Client:
        """A client that sends these headers."""
        transport = httpx2.ASGITransport(app=self.web)
        return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers)


Client = httpx2.AsyncClient


def faces() -> list[System]:
    """Every installed system with its routes and pages, but without its syncs."""
    found = [each.system for each in installed_systems()]
    return [each.with_syncs(()) for each in found if each is not None]


async def served(world: World, *syncs: Sync, **parts: Any) -> Served:
    """An application with these syncs, or with one that reads days, on the web, without systems."""
    app = await world.app(*(syncs or (history(),)), **parts)
    return Served(app, build(app, keys=KeyRing.for_demo()))


def serving(
    folder: Path, main: Callable[[World, Served], Awaitable[None]], *syncs: Sync, **parts: Any
) -> None:
    """Run `main` with an application on the web in a world of its own."""

    async def run(world: World) -> None:
        await main(world, await served(world, *syncs, **parts))

    in_world(folder, run)


def serving_all(
    folder: Path, main: Callable[[World, Served], Awaitable[None]], *syncs: Sync, **parts: Any
) -> None:
    """The same with every installed system."""
    serving(folder, main, *syncs, **{"systems": faces(), **parts})


def on_server(
    folder: Path, main: Callable[[Served], Awaitable[None]], *syncs: Sync, **parts: Any
) -> None:
    """The same for what is told of the server alone."""
    serving(folder, lambda _, served: main(served), *syncs, **parts)


def on_every_system(
    folder: Path, main: Callable[[Served], Awaitable[None]], *syncs: Sync, **parts: Any
) -> None:
    """The same with every installed system."""
    serving_all(folder, lambda _, served: main(served), *syncs, **parts)


with_server = as_test(on_server)
with_every_system = as_test(on_every_system)


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The problem document, which must be one of that kind, and whole."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert (told["status"], told["code"]) == (status, code), told
    assert told["type"] == f"urn:headgate:problem:{code}"
    assert told["title"] and told["detail"] and told["next"]
    assert isinstance(told["retryable"], bool)
    return told


async def start(client: Client, **fields: Any) -> dict[str, Any]:
    """A job, started."""
    answer = await client.post("/v1/jobs", json={"source": "fitbit", **DAYS, **fields})
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    return told
