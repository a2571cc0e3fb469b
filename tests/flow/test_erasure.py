"""Erasing a user: nothing writes for them any more, and all of theirs goes, whatever happens."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from headgate import App, Chunk, Context, InvalidInput, JobState, NotFound, Record, Sync, System
from headgate.base.errors import HeadgateError, StoreUnavailable, Transient
from headgate.flow.jobs import control
from headgate.flow.users import erasure as erase_user
from headgate.flow.users.erasure import UserData
from headgate.loops.eraser import Eraser
from headgate.model.connection import SealedCredentials
from headgate.ports.connections.store import NewConnection
from headgate.ports.transport import Request
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.people.erasures import SqlErasures
from headgate.types import Connection
from headgate_sandbox.kit.faults import Fault, FaultKind
from tests import stores
from tests.connecting import STRAVA, Site, strava_auth, strava_source, submit
from tests.flow.logs import lines, told
from tests.flow.sources import nothing
from tests.worlds import ScriptedSource, World, as_test, in_world, lanes, with_world

REVOKE = "/oauth/deauthorize"
#: What the system of these tests keeps, by user; each erasure of a user is noted.
KEPT: dict[str, list[str]] = {}
ERASED: list[str] = []


async def erase_kept(app: App, user_id: str) -> None:
    ERASED.append(user_id)
    KEPT.pop(user_id, None)


async def export_kept(app: App, user_id: str) -> Any:
    for word in KEPT.get(user_id, []):
        yield {"type": "word", "word": word}


KEEPER = System(
    name="keeper",
    title="Keeper",
    erase="tests.flow.test_erasure:erase_kept",
    export="tests.flow.test_erasure:export_kept",
)


@pytest.fixture(autouse=True)
def kept() -> None:
    KEPT.clear()
    ERASED.clear()
    KEPT["ada"] = ["rosebud"]


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than a batch erases."""
    monkeypatch.setattr(erase_user, "BATCH_MAX", 10)


class Place:
    """An application, and two athletes who are connected."""

    def __init__(self, world: World, site: Site, app: App) -> None:
        self.world, self.site, self.app = world, site, app

    async def rows_of(self, text: str) -> list[str]:
        """The tables that hold the text."""
        rows = await self.app._database.read(stores.contents)
        return sorted(name for name, found in rows.items() if text in repr(found))

    async def go_on(self) -> None:
        """A worker starts, and erases until it has nothing to do."""
        eraser = Eraser(self.app._runtime)
        while await eraser.run_once() < 1:
            pass


def in_place(
    folder: Path, main: Callable[[Place, Connection], Awaitable[None]], **auth: Any
) -> None:
    given = {"revoke_url": f"{STRAVA}{REVOKE}", "revoke_field": "access_token", **auth}

    async def opened(world: World) -> None:
        site = Site(world, activities=35)
        source = strava_source(strava_auth(**given))
        app = await site.app(source=source, systems=[KEEPER])
        await main(Place(world, site, app), await site.connect(app))

    in_world(folder, opened)


with_place = as_test(in_place, gives=2)


async def imported(place: Place, connection: Connection) -> None:
    await place.app.supervisor().start()
    job = await submit(place.app, connection)
    assert (await place.world.until(place.app, job.id)).state is JobState.SUCCESS


@pytest.mark.security(33)
@with_place
async def test_a_user_is_revoked_at_the_provider_and_erased_everywhere(
    place: Place, connection: Connection
) -> None:
    await imported(place, connection)
    await place.app.users.set_preferences("ada", email="ada@example.org")
    assert await place.rows_of(connection.id) == ["connections", "jobs", "record_owners", "records"]
    tokens = place.site.strava.tokens
    [access] = tokens._access
    assert tokens.find(access) is not None

    erasure = await place.app.users.forget("ada", by="eve")

    assert (erasure.user_id, erasure.unrevoked) == (None, ())
    assert erasure.finished_at is not None
    assert erasure.deleted["record"] == 35
    assert place.site.wire.count(REVOKE) == 1
    assert tokens.find(access) is None
    assert ERASED == ["ada"]
    assert KEPT == {}
    assert await place.rows_of("ada") == []
    assert await place.rows_of(connection.id) == ["removed_connections"]
    with pytest.raises(NotFound):
        await place.app.users.get("ada")


@with_place
async def test_an_expired_token_is_renewed_to_be_revoked(
    place: Place, connection: Connection
) -> None:
    await place.world.clock.sleep(7 * 3600)

    erasure = await place.app.users.forget("ada", by="eve")

    assert erasure.unrevoked == ()
    assert place.site.wire.refreshes == 1
    assert place.site.wire.count(REVOKE) == 1


@pytest.mark.parametrize("failure", ["unreachable", "refused"])
@with_place
async def test_an_authorization_that_cannot_be_revoked_is_reported_and_deleted_here(
    place: Place, connection: Connection, failure: str
) -> None:
    def break_it(request: Request) -> None:
        if urlsplit(request.url).path == REVOKE:
            raise Transient("the network is down")

    if failure == "unreachable":
        place.site.wire.before = break_it
    else:
        place.site.strava.faults.add(Fault(kind=FaultKind.SERVER_ERROR, path=REVOKE))

    erasure = await place.app.users.forget("ada", by="eve")

    assert erasure.unrevoked == ("strava",)
    assert await place.rows_of("ada") == []


@as_test(in_place, revoke_url=None, gives=2)
async def test_where_a_provider_has_no_such_endpoint_the_user_has_to_do_it(
    place: Place, connection: Connection
) -> None:
    erasure = await place.app.users.forget("ada", by="eve")

    assert erasure.unrevoked == ("strava",)
    assert place.site.wire.count(REVOKE) == 0


@with_place
async def test_an_authorization_that_the_provider_refuses_already_is_not_revoked(
    place: Place, connection: Connection
) -> None:
    await place.app.connections.mark_withdrawn(connection, "withdrawn there")

    erasure = await place.app.users.forget("ada", by="eve")

    assert erasure.unrevoked == ()
    assert place.site.wire.count(REVOKE) == 0


# ---- jobs that run meanwhile -------------------------------------------------------------------


@pytest.mark.security(33)
@with_world
async def test_a_running_job_writes_nothing_after_its_user_was_erased(world: World) -> None:
    reading, erased = asyncio.Event(), asyncio.Event()

    async def read(ctx: Context) -> Chunk:
        reading.set()
        # As slow as can be: it does not even end when it is told to.
        while not erased.is_set():
            try:
                await erased.wait()
            except asyncio.CancelledError:
                continue
        return Chunk(records=[Record("secret", {"of": "ada"})])

    app = await world.at_work(Sync(name="notes", source=ScriptedSource(read)), worker=lanes())
    await app.jobs.submit("notes", user_id="ada")
    await reading.wait()

    await app.users.forget("ada", by="eve")
    erased.set()
    await world.clock.sleep(600)

    rows = await app._database.read(stores.contents)
    assert "ada" not in repr(rows)
    assert rows["records"] == []


@with_world
async def test_the_jobs_of_a_user_are_cancelled_before_their_rows_are_deleted(world: World) -> None:
    ended: list[JobState] = []

    sync = Sync(
        name="notes", source=ScriptedSource(nothing), on_end=lambda job: ended.append(job.state)
    )
    app = await world.app(sync)
    await app.jobs.submit("notes", user_id="ada")

    await app.users.forget("ada", by="eve")

    assert ended == [JobState.CANCELLED]


@with_world
async def test_a_job_that_ends_at_that_moment_is_no_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = asyncio.Event()

    async def read(ctx: Context) -> Chunk:
        await ending.wait()
        return Chunk()

    app = await world.app(Sync(name="notes", source=ScriptedSource(read)))
    job = (await app.jobs.submit("notes", user_id="ada")).job
    await app.supervisor().start()
    await world.until(app, job.id, JobState.RUNNING)
    cancel = control.cancel

    async def late(rt: Any, job_id: str, **more: Any) -> Any:
        ending.set()
        assert (await world.until(app, job_id)).state is JobState.SUCCESS
        return await cancel(rt, job_id, **more)

    monkeypatch.setattr(erase_user, "cancel", late)

    erasure = await app.users.forget("ada", by="eve")

    assert erasure.deleted["job"] == 1
    with pytest.raises(NotFound):
        await app.jobs.get(job.id)


# ---- interruptions -----------------------------------------------------------------------------


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.security(33)
@with_place
async def test_an_interrupted_erasure_is_finished_by_a_worker(
    place: Place, connection: Connection
) -> None:
    await imported(place, connection)

    begun = await place.app.users.forget("ada", by="eve", batches_max=1)

    assert begun.finished_at is None
    assert sum(begun.deleted.values()) == 10
    assert ERASED == []
    await place.go_on()
    assert ERASED == ["ada"]
    assert await place.rows_of("ada") == []
    # There is no other left to go on with.
    assert not await UserData(place.app._runtime).go_on()


@with_place
async def test_an_erasure_that_failed_half_way_is_repeated(
    place: Place, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await imported(place, connection)

    async def fail(app: App, user_id: str) -> None:
        raise StoreUnavailable("the database of the system is down")

    monkeypatch.setattr("tests.flow.test_erasure.erase_kept", fail)
    with told("info") as stream:
        with pytest.raises(HeadgateError, match="of the system is down"):
            await place.app.users.forget("ada", by="eve")
        assert "erasures" in await place.rows_of("ada")
        monkeypatch.undo()

        erasure = await place.app.users.forget("ada", by="somebody else")

    # And is logged once as begun
    assert len(lines(stream, "erasure_begun")) == len(lines(stream, "user_erased")) == 1
    assert erasure.asked_by == "eve"
    assert KEPT == {}
    assert await place.rows_of("ada") == []


@pytest.mark.usefixtures("few_at_once")
@with_place
async def test_an_erasure_that_a_worker_finishes_meanwhile_tells_all_that_was_deleted(
    place: Place, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await imported(place, connection)
    users, erase = place.app.users, SqlErasures.erase_some

    async def finish_after(store: Any, erasure_id: str, *, limit: int) -> int:
        deleted = await erase(store, erasure_id, limit=limit)
        monkeypatch.setattr(SqlErasures, "erase_some", erase)
        while await UserData(place.app._runtime).go_on():
            pass
        return deleted

    monkeypatch.setattr(SqlErasures, "erase_some", finish_after)

    erasure = await users.forget("ada", by="eve", batches_max=1)

    assert erasure.finished_at is not None
    assert erasure.deleted["record"] == 35


@pytest.mark.usefixtures("few_at_once")
@with_place
async def test_whoever_waits_is_told_how_far_it_is(place: Place, connection: Connection) -> None:
    await imported(place, connection)
    told: list[int] = []

    erasure = await place.app.users.forget(
        "ada", by="eve", on_progress=lambda each: told.append(sum(each.deleted.values()))
    )

    assert told == sorted(told)
    assert (told[0], told[-1]) == (10, sum(erasure.deleted.values()))


@with_place
async def test_an_erasure_that_fails_again_and_again_keeps_no_other_from_its_end(
    place: Place, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail_for_ada(app: App, user_id: str) -> None:
        ERASED.append(user_id)
        if user_id == "ada" and ERASED.count("ada") < 3:
            raise ZeroDivisionError("a bug of the system")

    monkeypatch.setattr("tests.flow.test_erasure.erase_kept", fail_for_ada)
    for user_id in ("ada", "bob"):
        await place.app.users.set_plan(user_id, "gold")
        await place.app.users.forget(user_id, by="eve", batches_max=0)

    await place.go_on()

    assert ERASED == ["ada", "bob"]
    assert await place.rows_of("bob") == []
    for _ in range(2):
        await place.world.clock.sleep(erase_user.REST_S)
        await place.go_on()
    assert ERASED == ["ada", "bob", "ada", "ada"]
    assert await place.rows_of("ada") == []


@with_place
async def test_a_worker_without_a_system_leaves_its_users_to_workers_that_have_it(
    place: Place, connection: Connection
) -> None:
    await place.app.users.forget("ada", by="eve", batches_max=0)
    other = await place.site.app(source=strava_source(strava_auth()), systems=[])

    assert not await UserData(other._runtime).go_on()
    assert KEPT != {}

    assert await UserData(place.app._runtime).go_on()
    assert KEPT == {}
    assert await place.rows_of("ada") == []


@with_place
async def test_what_another_process_has_revoked_is_not_called_unrevoked(
    place: Place, connection: Connection
) -> None:
    def be_slower(request: Request) -> None:
        if urlsplit(request.url).path == REVOKE:
            raise Transient("the token is not valid any more")

    async def meanwhile(store: Any, connection_id: str, **more: Any) -> Any:
        await place.app.database.connections.remove(connection_id, **more)
        return await get(store, connection_id, **more)

    get = SqlConnections.get
    place.site.wire.before = be_slower
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlConnections, "get", meanwhile)
        erasure = await place.app.users.forget("ada", by="eve")

    assert erasure.unrevoked == ()
    assert await place.rows_of("ada") == []


@with_place
async def test_what_comes_in_meanwhile_is_erased_too(
    place: Place, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def come_back(app: App, user_id: str) -> None:
        ERASED.append(user_id)
        if len(ERASED) == 1:
            await place.site.connect(app)

    monkeypatch.setattr("tests.flow.test_erasure.erase_kept", come_back)

    erasure = await place.app.users.forget("ada", by="eve")

    assert ERASED == ["ada", "ada"]
    assert erasure.finished_at is not None
    assert await place.rows_of("ada") == []


# ---- refusals and exports ----------------------------------------------------------------------


@with_place
async def test_wrong_input_changes_nothing(place: Place, connection: Connection) -> None:
    for user_id, by in (("", "eve"), ("ada", ""), ("ada", "two\nlines")):
        with pytest.raises(InvalidInput):
            await place.app.users.forget(user_id, by=by)
    assert await place.rows_of("eve") == []


@pytest.mark.usefixtures("few_at_once")
@with_place
async def test_an_export_has_what_the_engine_and_the_systems_keep(
    place: Place, connection: Connection
) -> None:
    await imported(place, connection)

    lines = [row async for row in place.app.users.export("ada")]

    by_type = [row["type"] for row in lines]
    assert by_type.count("record") == 35
    assert {"user", "connection", "job", "job_event"} <= set(by_type)
    assert lines[-1] == {"system": "keeper", "type": "word", "word": "rosebud"}
    assert "sealed_access" not in repr(lines)
    assert [row async for row in place.app.users.export("nobody")] == []


@with_world
async def test_a_connection_of_a_source_that_is_gone_is_deleted_all_the_same(world: World) -> None:
    app = await world.app(Sync(name="notes", source=ScriptedSource(nothing)))
    await app.database.connections.add(
        NewConnection(
            id="conn_1",
            user_id="ada",
            source="gone",
            external_id=None,
            scopes=(),
            expires_at=None,
            sealed=SealedCredentials(access=b"a", refresh=None, key_id="k1"),
        )
    )

    erasure = await app.users.forget("ada", by="eve")

    assert erasure.unrevoked == ("gone",)
    assert erasure.deleted["user"] == 1
