"""Starting a job of any mode for a user's own connection."""

import pytest

from headgate import (
    ConnectionReason,
    InvalidInput,
    JobParams,
    JobRequest,
    Mode,
    NotConnected,
    NotFound,
    UnknownSync,
)
from tests.connecting import Site
from tests.worlds import World, with_world


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


@with_world
async def test_a_connection_that_is_another_users_or_needs_its_user_is_refused(
    world: World,
) -> None:
    site = Site(world)
    app = await site.app("all")
    connection = await site.connect(app)
    with pytest.raises(NotFound):
        await app.jobs.submit(JobRequest(sync="all", user_id="eve", connection_id=connection.id))
    assert app._runtime.credentials is not None
    await app._runtime.credentials.store.refuse(
        connection.id, version=1, reason=ConnectionReason.GRANT_REFUSED, error="no"
    )
    with pytest.raises(NotConnected, match="sign in again"):
        await app.jobs.submit(JobRequest(sync="all", user_id="ada"))
    with pytest.raises(UnknownSync, match="'all'"):
        await app.jobs.submit(JobRequest(sync="some", user_id="ada"))
    with pytest.raises(InvalidInput, match="user_id"):
        await app.jobs.submit(JobRequest(sync="all", user_id=""))
    assert await app.jobs.list() == []
