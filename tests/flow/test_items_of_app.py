"""What an application does with items of any collection: find, count and reset them."""

from datetime import timedelta

import pytest

from headgate import App, InvalidInput, ItemState, NotFound, Sync
from headgate.errors import NotConnected
from headgate.model import change
from headgate.model.job import Reason
from headgate.types import Job
from tests.collecting import ATTACHMENTS, COMMENTS, connect, notes_sync, put, stuck
from tests.connecting import Site, vault
from tests.flow.sources import nothing
from tests.worlds import ScriptedSource, World, with_world

HOUR = timedelta(hours=1)


async def opened(world: World) -> App:
    """An application of two collections."""
    return await world.app(notes_sync(), vault=vault(), transport=Site(world).wire)


@with_world
async def test_items_are_listed_of_one_collection_or_of_all(world: World) -> None:
    app = await opened(world)
    await put(app, "a")
    await put(app, "b", COMMENTS)

    async def listed(*args: str, **more: str) -> list[str]:
        return [each.id for each in await app.items.list(*args, **more)]  # type: ignore[arg-type]

    assert await listed() == ["a", "b"]
    assert await listed(COMMENTS.name) == ["b"]
    assert await listed(COMMENTS.name, user_id="bob") == []
    assert await listed(after="b") == []


@with_world
async def test_an_unknown_collection_is_told_with_those_that_there_are(world: World) -> None:
    app = await opened(world)
    said = "collection: 'x' is not declared; there are: notes.attachments, notes.comments"

    with pytest.raises(InvalidInput, match=said):
        await app.items.list("x")
    with pytest.raises(InvalidInput, match=said):
        await app.items.stats("x")
    with pytest.raises(InvalidInput, match="limit"):
        await app.items.list(limit=0)
    bare = await world.app()
    with pytest.raises(InvalidInput, match="there are: none"):
        await bare.items.list("x")
    # What another application declares is found all the same.
    await put(app, "a")
    assert [each.id for each in await bare.items.list(ATTACHMENTS.name)] == ["a"]
    assert await bare.items.list(ATTACHMENTS.name, after="a") == []


@with_world
async def test_each_collection_has_numbers_of_its_own(world: World) -> None:
    app = await opened(world)
    await stuck(app, "a")
    await put(app, "b", COMMENTS)

    attachments = await app.items.stats(ATTACHMENTS.name, user_id="bob")
    comments = await app.items.stats(COMMENTS.name)

    assert (attachments.title, attachments.stuck, attachments.retries) == ("Attachments", 1, {1: 1})
    assert attachments.of_user is not None and not any(attachments.of_user.values())
    assert (comments.states[ItemState.PENDING], comments.of_user) == (1, None)


@with_world
async def test_a_reset_asks_for_the_job_that_fetches_the_collection(world: World) -> None:
    app = await opened(world)
    connection_id = (await connect(app)).id
    for the_id, collection in (("a", ATTACHMENTS), ("b", COMMENTS), ("c", ATTACHMENTS)):
        await stuck(app, the_id, collection, connection_id=connection_id)

    # Comments wait for whoever comes by, and so does what its caller sees to.
    assert (await app.items.reset("b")).state is ItemState.PENDING
    assert (await app.items.reset("c", fetch=False)).retry_count == 0
    assert await app.jobs.list() == []

    await app.items.reset("a", user_id="ada")
    [job] = await app.jobs.list()
    assert (job.sync, job.connection_id, job.user_id) == ("notes", connection_id, "ada")
    assert job.params.options == {"only": "a"}
    with pytest.raises(NotFound):
        await app.items.reset("a", user_id="bob")


@with_world
async def test_a_reset_is_refused_while_the_user_has_to_sign_in_again(world: World) -> None:
    app = await opened(world)
    connection = await connect(app)
    for the_id, collection in (("a", ATTACHMENTS), ("b", COMMENTS)):
        await stuck(app, the_id, collection, connection_id=connection.id)
    await app.connections.mark_withdrawn(connection, "withdrawn")

    with pytest.raises(NotConnected, match="needs the user to sign in again first") as refused:
        await app.items.reset("a")

    # Then nothing was changed, and no job fails at once; what nobody fetches now may be reset
    assert refused.value.provider == "notes"
    assert (await app.items.get("a")).stuck
    assert await app.jobs.list() == []
    assert (await app.items.reset("b")).state is ItemState.PENDING
    assert not (await app.items.reset("a", fetch=False)).stuck


@with_world
async def test_a_reset_at_a_source_without_accounts_needs_no_sign_in(world: World) -> None:
    source = ScriptedSource(nothing)
    app = await world.app(Sync(name="notes", source=source, collections=[ATTACHMENTS]))
    await stuck(app, "a")

    await app.items.reset("a")

    assert [job.sync for job in await app.jobs.list()] == ["notes"]


async def asleep(app: App, reason: Reason) -> Job:
    """The job of an item that was reset before, put to sleep for an hour."""
    [queued] = await app.jobs.list()
    claim = await app._runtime.jobs.claim(
        queued.lane, worker="worker", limit=1, lease=timedelta(seconds=60)
    )
    [job] = claim.jobs
    slept = {
        Reason.RETRYING: change.retry(job, after=HOUR, error="503", recent_errors=()),
        Reason.RESCUED: change.rescue(job, after=HOUR),
        Reason.DEFERRED: change.defer(job, after=HOUR, reason=Reason.DEFERRED, note="later"),
    }[reason]
    after = await app._runtime.jobs.settle(slept)
    assert after is not None and (after.reason, after.turn) == (reason, None)
    return after


@pytest.mark.parametrize("reason", [Reason.RETRYING, Reason.RESCUED, Reason.DEFERRED])
@with_world
async def test_a_reset_wakes_a_sleeping_job_unless_it_waits_for_its_provider(
    world: World, reason: Reason
) -> None:
    # Given a job that sleeps for an hour
    app = await opened(world)
    connection_id = (await connect(app)).id
    for the_id in ("a", "b"):
        await stuck(app, the_id, ATTACHMENTS, connection_id=connection_id)
    await app.items.reset("a")
    job = await asleep(app, reason)

    # When another item is reset
    await app.items.reset("b")

    # Then the job is in line at once, or sleeps until its provider lets it go on
    woken = await app.jobs.get(job.id)
    assert (woken.turn is None) == (reason is Reason.DEFERRED)
    assert [each.id for each in await app.jobs.list()] == [job.id]


@with_world
async def test_what_was_fetched_is_served_with_its_item_and_forgotten_with_it(world: World) -> None:
    app = await opened(world)
    await put(app, "a")

    served = await app.items.serve("a", user_id="ada")

    assert (served.item.id, served.document) == ("a", None)
    assert await app.items.documents_of(["a"]) == []
    with pytest.raises(NotFound):
        await app.items.serve("a", user_id="bob")
    assert await app.items.delete(["a", "nobodys"], connection_id="ada") == 1
    assert await app.items.list() == []
