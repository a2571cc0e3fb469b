"""Starting a job of any mode for a user's own connection."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from typing import Any

import msgspec
import pytest

from headgate import App, ConnectionReason, InvalidInput, JobRequest, Mode, NotFound, Sync
from headgate.errors import NotConnected, UnknownSync
from headgate.flow.jobs.service import Jobs
from headgate.types import Connection, JobParams
from tests.connecting import Site
from tests.flow.sources import nothing
from tests.worlds import ScriptedSource, World, with_world


@with_world
async def test_a_connection_need_not_be_named_where_there_is_one(world: World) -> None:
    site = Site(world)
    app = await site.app("all")
    wanted = JobRequest(sync="all", user_id="ada", mode=Mode.LIMIT, limit=3)
    with pytest.raises(NotConnected, match="has not connected"):
        await app.jobs.submit(wanted)

    connection = await site.connect(app)
    job = (await app.jobs.submit(wanted)).job

    assert (job.connection_id, job.mode, job.params) == (
        connection.id,
        Mode.LIMIT,
        JobParams(limit=3),
    )


async def signed_out(world: World) -> tuple[App, Connection]:
    """An application with a connection whose user has to sign in again."""
    site = Site(world)
    app = await site.app("all")
    connection = await site.connect(app)
    assert app._runtime.credentials is not None
    await app._runtime.credentials.store.refuse(
        connection.id, version=1, reason=ConnectionReason.GRANT_REFUSED, error="no"
    )
    return app, connection


@with_world
async def test_a_connection_that_needs_its_user_is_refused(world: World) -> None:
    app, _ = await signed_out(world)
    with pytest.raises(NotConnected, match="sign in again"):
        await app.jobs.submit("all", user_id="ada")


async def _submit_many(jobs: Jobs, request: JobRequest) -> None:
    [outcome] = await jobs.submit_many([request])
    assert outcome.error is not None
    raise outcome.error


async def _continue_last(jobs: Jobs, request: JobRequest) -> None:
    await jobs.continue_last(
        str(request.sync), user_id=request.user_id, connection_id=request.connection_id
    )


#: Every call that takes a connection for a job. Those of the API are tried in `tests/web`, those of
#: the command line in `tests/cli`.
DOORS: Mapping[str, Callable[[Jobs, JobRequest], Awaitable[object]]] = {
    "submit": Jobs.submit,
    "submit_many": _submit_many,
    "ensure": Jobs.ensure,
    "forecast": Jobs.forecast,
    "continue_last": _continue_last,
}


@pytest.mark.parametrize("door", DOORS)
@with_world
async def test_a_connection_of_another_user_is_not_found(world: World, door: str) -> None:
    site = Site(world)
    app = await site.app("all")
    connection = await site.connect(app)
    # Also where nothing could be asked of the provider.
    locked = msgspec.structs.replace(app._runtime, credentials=None)

    for jobs in (app.jobs, Jobs(locked)):
        with pytest.raises(NotFound, match="there is no connection"):
            await DOORS[door](jobs, request("eve", connection.id))

    assert await app.jobs.list() == []


@pytest.mark.parametrize("door", DOORS)
@with_world
async def test_where_a_source_has_no_connections_only_the_users_own_id_is_one(
    world: World, door: str
) -> None:
    app = await world.app(Sync(name="all", source=ScriptedSource(nothing, "shop")))

    with pytest.raises(InvalidInput, match="users have no connections to shop: leave it out") as no:
        await DOORS[door](app.jobs, request("eve", "ada"))

    assert no.value.field.endswith("connection_id")
    assert await app.jobs.list() == []
    for own in (None, "eve"):
        assert (await app.jobs.ensure(request("eve", own))).job.connection_id == "eve"


def request(user_id: str, connection_id: str | None) -> JobRequest:
    return JobRequest(sync="all", user_id=user_id, connection_id=connection_id)


@with_world
async def test_a_job_needs_a_sync_that_there_is_and_a_user(world: World) -> None:
    app = await world.app(Sync(name="all", source=ScriptedSource(nothing)))
    with pytest.raises(UnknownSync, match="'all'"):
        await app.jobs.submit("some", user_id="ada")
    with pytest.raises(InvalidInput, match="user_id"):
        await app.jobs.submit("all", user_id="")
    with pytest.raises(InvalidInput, match="sync: is missing; name a sync, or a source"):
        await app.jobs.submit(user_id="ada")
    assert await app.jobs.list() == []


@with_world
async def test_a_webhook_may_ensure_a_job_whose_user_has_to_sign_in_again(world: World) -> None:
    app, connection = await signed_out(world)
    job = (await app.jobs.ensure("all", user_id="ada")).job
    assert job.connection_id == connection.id


def days(**fields: Any) -> JobRequest:
    return JobRequest(
        user_id="ada", start_date=date(2025, 1, 1), end_date=date(2025, 1, 2), **fields
    )


WRONG = [
    (JobRequest(user_id="ada", sync="both"), "mode: 'full' is not one of since, history"),
    (JobRequest(user_id="ada", sync="both", destination="attic"), "source: is missing beside"),
    (days(source="garden"), "source: no sync imports history from garden; there are: from shed"),
    (days(source="shed", sync="other"), "sync: name one of these from shed: both"),
    (days(source="shed", mode="some"), "mode: 'some' is not one of full, since"),
    (days(sync="both", mode="since"), "start_date: only mode history takes it, not mode since"),
]


@with_world
async def test_a_sync_that_is_left_out_is_found_by_its_source(world: World) -> None:
    source = ScriptedSource(nothing)
    source.name = "shed"
    app = await world.app(Sync(name="both", source=source, modes=(Mode.SINCE, Mode.HISTORY)))
    for request, said in WRONG:
        with pytest.raises(InvalidInput) as refused:
            await app.jobs.submit(request)
        assert str(refused.value).startswith(said)
    for fields, said in (({"start": 1}, "start: is no field of a job"), ({"key": "k"}, "key: ")):
        with pytest.raises(InvalidInput, match=said):
            await app.jobs.ensure("both", user_id="ada", mode="since", **fields)
    with pytest.raises(InvalidInput, match="mode: a backfill reads its days once"):
        await app.jobs.ensure(days(sync="both"))

    assert (await app.jobs.forecast(days(sync="both"))).days == 2
    assert (await app.jobs.submit(days(source="shed"))).job.mode is Mode.HISTORY
    named = JobRequest(user_id="bob", sync="both", source="shed", mode="since")
    assert (await app.jobs.submit(named)).job.mode is Mode.SINCE


@with_world
async def test_only_a_backfill_is_forecast(world: World) -> None:
    site = Site(world)
    app = await site.app("all")
    await site.connect(app)
    with pytest.raises(InvalidInput, match="only a backfill can be forecast, not mode full"):
        await app.jobs.forecast("all", user_id="ada", mode="full")
