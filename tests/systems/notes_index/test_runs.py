"""Runs from a graph to its index: what is read, what is embedded, and what is left for the next."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headgate import Conflict, InvalidInput, JobState, Mode, NotFound, Secret
from headgate.connectors.roam.api import NAME as ROAM
from headgate.errors import NotConnected
from headgate.systems.notes_index.plan import page_key
from headgate.systems.notes_index.run_view import RunSummary, run_of
from headgate.systems.notes_index.service import ConfirmDeletion, RunRequest
from headgate.types import Job
from headgate_sandbox.roam.graph import Edit, NewBlock, NewPage
from tests.systems.notes_index.desk import USER, CountingEmbedder, Desk, at_desk
from tests.vectors import LetterEmbedder

PAGES = 28
#: The list of pages and that of their edits.
LISTING = 2


@pytest.fixture
async def desk(
    request: pytest.FixtureRequest, sqlite_address: str, tmp_path: Path
) -> AsyncIterator[Desk]:
    """A graph of four batches, or of so many as the test says."""
    given = {"pages": PAGES, **getattr(request, "param", {})}
    async with at_desk(sqlite_address, tmp_path, **given) as desk:
        yield desk


def a_desk(pages: int, **more: Any) -> pytest.MarkDecorator:
    """The test's desk has so many pages."""
    return pytest.mark.parametrize("desk", [{"pages": pages, **more}], indirect=True, ids=[""])


@pytest.fixture
async def postgres_desk(postgres_address: str, tmp_path: Path) -> AsyncIterator[Desk]:
    """The same on Postgres."""
    async with at_desk(postgres_address, tmp_path, pages=PAGES) as desk:
        yield desk


async def summary(desk: Desk, job: Job) -> RunSummary:
    told = run_of(job, await desk.app.jobs.view(job)).summary
    assert told is not None
    return told


def page(desk: Desk, number: int) -> str:
    """The uid of a page of the graph."""
    return list(desk.roam.graph().heads())[number].uid


# ---- the first run, and the next ---------------------------------------------------------------


async def test_a_first_run_indexes_every_page_and_the_next_nothing(desk: Desk) -> None:
    first = await desk.run()
    heads = {head.uid: head.title for head in desk.roam.graph().heads()}

    assert first.state is JobState.SUCCESS
    assert await desk.index.page_uids() == heads.keys()
    assert sorted(desk.embedder.titles) == sorted(heads.values())
    told = await summary(desk, first)
    assert (told.total_pages, told.processed, told.updated) == (PAGES, PAGES, PAGES)
    assert (told.skipped_since, told.skipped_content, told.failed) == (0, 0, 0)
    # One request for every batch of seven, besides the list.
    assert desk.requests() == LISTING + 4
    kept = await desk.app.records.list("notes-index", desk.connection.id, limit=1000)
    assert {record.key for record in kept} == {page_key(uid) for uid in heads}

    before, embedded = desk.requests(), len(desk.embedder.texts)
    second = await desk.run()

    told = await summary(desk, second)
    assert (told.processed, told.skipped_since) == (0, PAGES)
    assert told.cursor_max_edit_time == (await summary(desk, first)).cursor_max_edit_time
    assert (desk.requests() - before, len(desk.embedder.texts) - embedded) == (LISTING, 0)

    # Mode full reads everything, and embeds nothing twice
    told = await summary(desk, await desk.run(mode=Mode.FULL))
    assert (told.processed, told.updated, told.skipped_content) == (PAGES, 0, PAGES)
    assert len(desk.embedder.texts) == embedded

    # A page that the index has lost is indexed again
    await desk.index.delete([page(desk, 1)])
    told = await summary(desk, await desk.run())
    assert (told.processed, told.updated) == (1, 1)
    assert len(await desk.index.page_uids()) == PAGES


async def test_only_what_changed_is_read_and_embedded(postgres_desk: Desk) -> None:
    desk = postgres_desk
    await desk.run()
    before, embedded = desk.requests(), len(desk.embedder.titles)

    edited, touched, deleted = page(desk, 3), page(desk, 4), page(desk, 5)
    desk.roam.edit_page(Edit(page=edited, append="A new thought."))
    desk.roam.edit_page(Edit(page=touched))
    desk.roam.delete_page(deleted)
    added = desk.roam.add_page(NewPage(title="Fresh", blocks=[NewBlock("Brand new.")]))
    job = await desk.run()

    told = await summary(desk, job)
    assert (told.total_pages, told.processed, told.updated) == (PAGES, 3, 2)
    assert (told.skipped_since, told.skipped_content, told.removed) == (PAGES - 3, 1, 1)
    assert desk.requests() - before == LISTING + 1
    title = desk.roam.graph().page(edited)
    assert title is not None
    assert sorted(desk.embedder.titles[embedded:]) == sorted(["Fresh", title.title])
    uids = await desk.index.page_uids()
    assert deleted not in uids and added.uid in uids
    gone = await desk.app.records.find(["notes-index"], [desk.connection.id], [page_key(deleted)])
    assert gone == []

    # And a page that was only touched is not looked at again.
    before = desk.requests()
    assert (await summary(desk, await desk.run())).processed == 0
    assert desk.requests() - before == LISTING


@a_desk(3)
async def test_what_a_page_no_longer_has_is_not_found_any_more(desk: Desk) -> None:
    made = desk.roam.add_page(NewPage(title="Plans", blocks=[NewBlock("zzzz qqqq")]))
    await desk.run()
    [hit] = (await desk.notes.search("zzzz qqqq", user_id=USER, limit=1)).data
    assert (hit.page.uid, hit.snippet) == (made.uid, "zzzz qqqq")

    block = made.children[0].uid
    desk.roam.edit_page(Edit(page=made.uid, block=block, string="something else"))
    await desk.run()

    [hit] = (await desk.notes.search("something else", user_id=USER, limit=1)).data
    assert (hit.block_uid, hit.snippet) == (block, "something else")
    texts = [each.snippet for each in (await desk.notes.search("zzzz", user_id=USER)).data]
    assert "zzzz qqqq" not in texts


# ---- limits, times, failures -------------------------------------------------------------------


@a_desk(10)
async def test_limited_runs_go_on_where_the_last_one_ended(desk: Desk) -> None:
    for left in (7, 4, 1, 0):
        told = await summary(desk, await desk.run(mode=Mode.LIMIT, limit=3))
        assert 10 - len(await desk.index.page_uids()) == left
        assert told.skipped_since == 10 - left - told.processed
    assert sorted(set(desk.embedder.titles)) == sorted(desk.embedder.titles)


@a_desk(10)
async def test_a_given_time_leaves_the_rest_to_the_next_run(desk: Desk) -> None:
    added = desk.roam.add_page(NewPage(title="Today", blocks=[NewBlock("now")]))
    told = await summary(desk, await desk.run(since=desk.roam.graph().now_ms() - 60_000))
    assert (told.processed, told.skipped_since) == (1, 10)
    assert await desk.index.page_uids() == {added.uid}

    # The mark did not move past what was left out.
    told = await summary(desk, await desk.run())
    assert (told.processed, told.skipped_since) == (10, 1)

    with pytest.raises(InvalidInput, match="since"):
        await desk.start(since=-1)
    with pytest.raises(InvalidInput, match="limit"):
        await desk.start(mode=Mode.LIMIT)


@a_desk(8, nodes_max=250)
async def test_the_mark_never_moves_past_a_page_that_failed(desk: Desk) -> None:
    # Given a page that is too much for Roam even by itself
    many = NewBlock("parent", [NewBlock(f"child {number}") for number in range(300)])
    long = desk.roam.add_page(NewPage(title="Long", blocks=[many]))
    late = desk.roam.add_page(NewPage(title="Late", blocks=[NewBlock("after it")]))

    job = await desk.run()

    # Then all others are indexed, and it is told
    assert job.state is JobState.SUCCESS
    told = await summary(desk, job)
    assert (told.processed, told.updated, told.failed) == (10, 9, 1)
    assert late.uid in await desk.index.page_uids()
    assert told.cursor_max_edit_time is not None
    assert told.cursor_max_edit_time < max(block.edit_ms for block in long.everything())

    # And when it can be read, the next run does
    desk.roam.edit_page(Edit(page=long.uid, remove=long.children[0].uid))
    told = await summary(desk, await desk.run())
    assert (told.processed, told.updated, told.failed) == (1, 1, 0)
    assert long.uid in await desk.index.page_uids()


@a_desk(8)
async def test_a_page_that_cannot_be_embedded_keeps_no_other_from_it_and_is_tried_again(
    desk: Desk,
) -> None:
    desk.roam.add_page(NewPage(title="Poison", blocks=[NewBlock("unspeakable")]))
    desk.embedder.refuses = "unspeakable"
    told = await summary(desk, await desk.run())
    assert (told.processed, told.updated, told.failed) == (9, 8, 1)
    assert len(await desk.index.page_uids()) == 8

    desk.embedder.refuses = None
    told = await summary(desk, await desk.run())
    assert (told.processed, told.updated, told.failed) == (1, 1, 0)
    assert len(await desk.index.page_uids()) == 9

    # Nor does one that is indexed, and gets such a text, when another is edited after it
    desk.roam.edit_page(Edit(page=page(desk, 2), append="unutterable"))
    desk.roam.add_page(NewPage(title="Late", blocks=[NewBlock("after it")]))
    desk.embedder.refuses = "unutterable"
    job = await desk.run()
    told = await summary(desk, job)
    assert (told.processed, told.updated, told.failed) == (2, 1, 1)
    events = await desk.app.jobs.events(job.id)
    [complete] = [event.data for event in events if event.kind == "batch_complete"]
    assert complete["stats"] == {"pages_updated": 1, "pages_failed": 1}
    desk.embedder.refuses = None
    told = await summary(desk, await desk.run())
    assert (told.processed, told.updated, told.failed) == (1, 1, 0)
    assert (await desk.notes.search("unutterable", user_id=USER, limit=1)).data[0].snippet


@a_desk(5)
async def test_a_list_that_fails_is_an_error_and_never_an_empty_graph(desk: Desk) -> None:
    await desk.run()
    desk.roam.encrypt()
    job = await desk.run()
    assert (job.state, "encrypted" in (job.error or "")) == (JobState.FAILED, True)
    # Nothing is deleted before the graph can be read, though it was agreed to
    job = await desk.run(clear=True, confirmed_pages=5)
    assert job.state is JobState.FAILED
    assert len(await desk.index.page_uids()) == 5

    desk.roam.encrypted.clear()
    for uid in [head.uid for head in desk.roam.graph().heads()]:
        desk.roam.delete_page(uid)
    job = await desk.run()
    assert (job.state, "lists no page" in (job.error or "")) == (JobState.FAILED, True)
    assert len(await desk.index.page_uids()) == 5


# ---- cancelling and going on -------------------------------------------------------------------


async def test_a_cancelled_run_is_resumed_with_exactly_the_pages_that_are_left(desk: Desk) -> None:
    # Given a run that is cancelled in its third batch
    desk.embedder.hold.clear()
    started = await desk.start(mode=Mode.FULL)
    for _ in range(3):
        await desk.embedder.held.wait()
        desk.embedder.held.clear()
        if len(desk.embedder.titles) < 14:
            desk.embedder.hold.set()
            while not desk.embedder.texts:
                await desk.app.clock.sleep(0.001)
            desk.embedder.hold.clear()
    await desk.notes.cancel(user_id=USER)
    desk.embedder.hold.set()
    cancelled = await desk.ended(started.id)
    assert cancelled.state is JobState.CANCELLED
    # Not everything is indexed up to any time yet.
    assert (await summary(desk, cancelled)).cursor_max_edit_time is None
    done = set(await desk.index.page_uids())
    assert 0 < len(done) < PAGES
    # A dry run in between takes nothing away.
    await desk.run(dry_run=True)
    before, embedded = desk.requests(), len(desk.embedder.titles)

    # When it is resumed
    resumed = (await desk.notes.resume(user_id=USER)).job
    job = await desk.ended(resumed.id)

    # Then only the rest was read, in the same mode, and nothing was listed again
    assert (job.state, job.mode) == (JobState.SUCCESS, Mode.FULL)
    left = PAGES - cancelled.progress.done
    assert desk.requests() - before == -(-left // 7)
    assert len(desk.embedder.titles) - embedded <= left
    assert len(await desk.index.page_uids()) == PAGES
    told = await summary(desk, job)
    assert (told.total_pages, told.processed) == (PAGES, PAGES)

    # And its success is stored: there is nothing left to resume, and nothing to read
    with pytest.raises(Conflict, match="succeeded"):
        await desk.notes.resume(user_id=USER)
    assert (await summary(desk, await desk.run())).processed == 0


async def test_a_failed_run_is_resumed_too(sqlite_address: str, tmp_path: Path) -> None:
    async with at_desk(sqlite_address, tmp_path, pages=10, batch=4) as desk:
        # Given a run whose token was revoked after its first batch
        desk.embedder.hold.clear()
        started = await desk.start()
        await desk.embedder.held.wait()
        desk.roam._revoked.add(desk.roam.token())
        desk.embedder.hold.set()
        job = await desk.ended(started.id)
        assert (job.state, job.progress.done) == (JobState.FAILED, 4)
        with pytest.raises(NotConnected):
            await desk.notes.resume(user_id=USER)

        # When the graph is connected again
        desk.roam._revoked.clear()
        await desk.app.connections.connect_with_token(
            ROAM,
            user_id=USER,
            token=Secret(desk.roam.token()),
            external_id="graph-1",
            connection_id=desk.connection.id,
        )
        job = await desk.ended((await desk.notes.resume(user_id=USER)).job.id)

        # Then the rest is indexed
        assert job.state is JobState.SUCCESS
        assert len(await desk.index.page_uids()) == 10
        assert len(desk.embedder.titles) == 10


@a_desk(10, batch=4)
async def test_a_plan_without_its_records_is_told(desk: Desk) -> None:
    desk.embedder.hold.clear()
    started = await desk.start()
    await desk.embedder.held.wait()
    await desk.app.records.forget(["notes-index"], desk.connection.id, ["plan/0"])
    desk.embedder.hold.set()
    job = await desk.ended(started.id)
    assert (job.state, "start a new run" in (job.error or "")) == (JobState.FAILED, True)


# ---- deleting an index -------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["clear", "recreate_collection"])
@a_desk(6)
async def test_an_index_is_deleted_only_as_somebody_agreed(desk: Desk, field: str) -> None:
    await desk.run()
    for wrong in (None, 5, 7):
        with pytest.raises(ConfirmDeletion, match="6 pages") as refused:
            await desk.start(**{field: True, "confirmed_pages": wrong})
        assert refused.value.pages == 6
    assert len(await desk.index.page_uids()) == 6

    told = await summary(desk, await desk.run(**{field: True, "confirmed_pages": 6}))

    assert (told.processed, told.updated) == (6, 6)
    assert len(await desk.index.page_uids()) == 6
    assert len(desk.embedder.titles) == 12


@a_desk(6)
async def test_an_index_that_grew_meanwhile_is_not_deleted(desk: Desk) -> None:
    await desk.run()
    # Somebody agreed when there were five.
    submitted = await desk.app.jobs.submit(
        "notes-index",
        user_id=USER,
        connection_id=desk.connection.id,
        options={"clear": True, "confirmed_pages": 5},
    )
    job = await desk.ended(submitted.job.id)
    assert (job.state, "agreed to delete 5" in (job.error or "")) == (JobState.FAILED, True)
    assert len(await desk.index.page_uids()) == 6


async def test_another_embedder_needs_another_index(sqlite_address: str, tmp_path: Path) -> None:
    async with at_desk(sqlite_address, tmp_path, pages=4) as desk:
        await desk.run()
    other = CountingEmbedder(LetterEmbedder(name="other", dimensions=4))
    async with at_desk(sqlite_address, tmp_path, pages=4, embedder=other) as desk:
        started = await desk.start()
        job = await desk.ended(started.id)
        assert job.state is JobState.FAILED
        assert "built with the embedder letters (8 dimensions)" in (job.error or "")

        job = await desk.run(recreate_collection=True, confirmed_pages=4)

        assert job.state is JobState.SUCCESS
        assert len(other.titles) == 4


# ---- dry runs, users, erasing ------------------------------------------------------------------


async def test_a_dry_run_tells_what_a_run_would_do_and_changes_nothing(desk: Desk) -> None:
    job = await desk.run(dry_run=True)

    assert job.state is JobState.SUCCESS
    assert job.summary.counts == {"total_pages": PAGES, "skipped_since": 0, "planned": PAGES}
    assert desk.embedder.texts == []
    assert await desk.app.records.list("notes-index", desk.connection.id) == []
    # Not even the mark: the next run reads everything.
    assert (await summary(desk, await desk.run())).processed == PAGES


async def test_a_graph_that_is_not_connected_is_refused(desk: Desk) -> None:
    named: dict[str, Any] = {"user_id": USER, "connection_id": "conn_none"}

    for asked in (
        desk.notes.start(RunRequest(**named)),
        desk.notes.resume(**named),
        desk.notes.runs(**named),
        desk.notes.last(**named),
        desk.notes.cancel(**named),
        desk.notes.search("gates", **named),
    ):
        with pytest.raises(NotFound, match="there is no connection 'conn_none'"):
            await asked

    assert await desk.app.jobs.list() == []


@a_desk(4)
async def test_nobody_finds_another_s_notes_or_runs(desk: Desk) -> None:
    job = await desk.run()
    with pytest.raises(NotConnected):
        await desk.notes.search("anything", user_id="eve")
    with pytest.raises(NotFound):
        await desk.notes.search("anything", user_id="eve", connection_id=desk.connection.id)
    with pytest.raises(NotFound):
        await desk.notes.get(job.id, user_id="eve")
    assert await desk.notes.last(user_id="eve") is None

    await desk.app.connections.connect_with_token(
        ROAM, user_id="eve", token=Secret(desk.roam.token()), external_id="graph-1"
    )
    assert (await desk.notes.search("anything", user_id="eve")).data == []


@a_desk(4)
async def test_erasing_a_user_deletes_that_user_s_indexes(desk: Desk) -> None:
    await desk.run()
    await desk.app.users.forget("eve", by="an operator")
    assert await desk.index.exists()
    exported = [row async for row in desk.app.users.export(USER)]
    pages = {row["page"] for row in exported if row["type"] == "note_text"}
    assert pages == await desk.index.page_uids()
    await desk.app.users.forget(USER, by="an operator")
    assert not await desk.index.exists()
