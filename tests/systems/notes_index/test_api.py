"""The run API: every transition and refusal of its specification, its events, and the search."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headgate import JobState
from headgate.systems.notes_index.settings import ClearBy
from headgate_sandbox.roam.graph import NewBlock, NewPage
from tests.systems.notes_index.desk import USER, Desk, at_desk
from tests.web.callers import Client, problem

START, STATUS, CANCEL, RUNS = "/sync/start", "/sync/status", "/sync/cancel", "/sync/runs"
FIELDS = (
    "status run_id user_id connection_id mode params started_at finished_at progress summary error"
    " message"
).split()


@pytest.fixture
async def desk(sqlite_address: str, tmp_path: Path) -> AsyncIterator[Desk]:
    """A graph of three batches."""
    async with at_desk(sqlite_address, tmp_path, pages=10, batch=4) as desk:
        yield desk


async def told(client: Client, path: str = STATUS, **params: Any) -> dict[str, Any]:
    answer = await client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def start(client: Client, **body: Any) -> dict[str, Any]:
    answer = await client.post(START, json=body)
    assert answer.status_code == 202, answer.text
    document: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/sync/runs/{document['run_id']}"
    return document


# ---- states ------------------------------------------------------------------------------------


async def test_from_idle_by_running_to_success_and_again(desk: Desk) -> None:
    ann = await desk.ann()
    idle = await told(ann)
    assert (list(idle), idle["status"], idle["run_id"]) == (FIELDS, "idle", None)

    desk.embedder.hold.clear()
    begun = await start(ann, mode="full")
    assert (list(begun), begun["status"], begun["mode"]) == (FIELDS, "running", "full")
    chosen = {"clear": False, "recreate_collection": False, "dry_run": False}
    assert begun["params"] == {"since": None, "limit": None, **chosen}
    await desk.embedder.held.wait()
    running = await told(ann)
    assert (running["status"], running["error"]) == ("running", None)
    assert running["progress"]["processed"] == {"processed": 0, "total": 10, "percent": 0.0}
    assert running["summary"]["total_pages"] == 10

    desk.embedder.hold.set()
    await desk.ended(begun["run_id"])
    success = await told(ann)
    assert (success["status"], success["error"]) == ("success", None)
    assert success["started_at"] < success["finished_at"]
    assert success["progress"]["processed"] == {"processed": 10, "total": 10, "percent": 100.0}
    assert (success["progress"]["event"], success["progress"]["batch"]) == ("batch_complete", 3)
    assert success["progress"]["stats"] == {"pages_updated": 10, "pages_failed": 0}
    mark = success["summary"].pop("cursor_max_edit_time")
    assert mark == max(each.edit_ms for page in _pages(desk) for each in page.everything())
    counts = {"total_pages": 10, "processed": 10, "updated": 10, "failed": 0, "removed": 0}
    assert success["summary"] == {**counts, "skipped_since": 0, "skipped_content": 0}

    # From any terminal state a new run may start; by default it reads what changed.
    again = await start(ann)
    assert (again["mode"], again["run_id"] != begun["run_id"]) == ("since", True)
    await desk.ended(again["run_id"])
    assert (await told(ann))["summary"]["skipped_since"] == 10


def _pages(desk: Desk) -> list[Any]:
    graph = desk.roam.graph()
    return [page for head in graph.heads() if (page := graph.page(head.uid)) is not None]


async def test_from_running_by_cancelling_to_cancelled(desk: Desk) -> None:
    ann = await desk.ann()
    problem(await ann.post(CANCEL), 409, "illegal_transition")
    desk.embedder.hold.clear()
    begun = await start(ann)
    await desk.embedder.held.wait()

    # While one is active, no other starts; the active one is named.
    refused = problem(await ann.post(START, json={}), 409, "active_job_exists")
    assert refused["run_id"] == refused["job_id"] == begun["run_id"]
    problem(await ann.post(START, json={"resume": True}), 409, "active_job_exists")

    cancelling = (await ann.post(CANCEL)).json()
    assert (cancelling["status"], cancelling["error"]) == ("cancelling", "cancel requested")
    # Also not while it is being cancelled; and to cancel again changes nothing.
    refused = problem(await ann.post(START, json={}), 409, "active_job_exists")
    assert refused["run_id"] == begun["run_id"]
    again = await ann.post(CANCEL, json={})
    assert again.json()["status"] == "cancelling"

    desk.embedder.hold.set()
    await desk.ended(begun["run_id"])
    cancelled = await told(ann)
    assert (cancelled["status"], cancelled["error"]) == ("cancelled", "cancelled")
    assert cancelled["finished_at"] is not None
    problem(await ann.post(CANCEL), 409, "illegal_transition")

    # It can be resumed, and started anew.
    resumed = await start(ann, resume=True)
    await desk.ended(resumed["run_id"])
    assert (await told(ann))["summary"]["processed"] == 10
    problem(await ann.post(START, json={"resume": True}), 409, "illegal_transition")


async def test_a_failed_run_tells_why_and_what_it_has_done(desk: Desk) -> None:
    ann = await desk.ann()
    desk.embedder.hold.clear()
    begun = await start(ann)
    await desk.embedder.held.wait()
    desk.roam.encrypt()
    desk.embedder.hold.set()
    await desk.ended(begun["run_id"])

    failed = await told(ann)
    assert failed["status"] == "failed"
    assert failed["error"] and failed["finished_at"]
    assert (failed["summary"]["total_pages"], failed["summary"]["processed"]) == (10, 4)
    # An admin is told the reason itself.
    admin = await desk.admin()
    assert "encrypted" in (await told(admin, user_id=USER))["error"]


async def test_a_pending_run_is_cancelled_at_once(desk: Desk) -> None:
    ann = await desk.ann()
    submitted = await desk.app.jobs.submit(
        "notes-index", user_id=USER, connection_id=desk.connection.id, delay_s=600
    )
    assert (await told(ann))["status"] == "running"
    cancelled = (await ann.post(CANCEL)).json()
    assert (cancelled["status"], cancelled["error"]) == ("cancelled", "cancelled")
    assert (await desk.app.jobs.get(submitted.job.id)).state is JobState.CANCELLED


# ---- refusals ----------------------------------------------------------------------------------


async def test_a_wrong_field_is_named_and_nothing_starts(desk: Desk) -> None:
    ann = await desk.ann()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"mode": "history"}, "mode"),
        ({"mode": "everything"}, "mode"),
        ({"mode": "full", "since": 1705000000000}, "since"),
        ({"since": "2024-01-01"}, "since"),
        ({"since": 1 << 60}, "since"),
        ({"since": 4102444800000}, "since"),
        ({"mode": "limit"}, "limit"),
        ({"mode": "limit", "limit": 0}, "limit"),
        ({"limit": 5}, "limit"),
        ({"state_file": "/etc/passwd"}, "state_file"),
        ({"state_fil": "x"}, "state_fil"),
        ({"clear": "yes"}, "clear"),
        ({"resume": True, "mode": "full"}, "mode"),
        ({"resume": True, "clear": True}, "clear"),
    ]
    for body, field in cases:
        refused = problem(await ann.post(START, json=body), 422, "invalid_input")
        assert refused["field"] == field
        if field == "state_file":
            assert "the checkpoint is in the store" in refused["detail"]
    assert (await told(ann))["status"] == "idle"


async def test_a_user_without_a_graph_is_told_to_connect_one(desk: Desk) -> None:
    eve = await desk.client(user_id="eve")
    problem(await eve.post(START, json={}), 409, "not_connected")
    problem(await eve.get("/v1/notes/search", params={"q": "x"}), 409, "not_connected")


async def test_to_delete_an_index_takes_a_permission_and_the_number_of_its_pages(
    desk: Desk,
) -> None:
    ann, admin = await desk.ann(), await desk.admin()
    await desk.run()
    problem(await ann.post(START, json={"clear": True}), 403, "forbidden")
    # A dry run deletes nothing.
    dry = await start(ann, clear=True, dry_run=True)
    await desk.ended(dry["run_id"])

    body = {"clear": True, "user_id": USER}
    shown = problem(await admin.post(START, json=body), 409, "confirmation_missing")
    assert (shown["field"], shown["deletes_pages"]) == ("confirm_pages", 10)
    assert "10 pages" in shown["detail"]
    begun = await start(admin, **body, confirm_pages=10)
    await desk.ended(begun["run_id"])
    assert (await told(ann))["summary"]["updated"] == 10


async def test_users_may_be_let_delete_their_own_index(sqlite_address: str, tmp_path: Path) -> None:
    async with at_desk(sqlite_address, tmp_path, pages=3, clear_by=ClearBy.USER) as desk:
        await desk.run()
        begun = await start(await desk.ann(), recreate_collection=True, confirm_pages=3)
        await desk.ended(begun["run_id"])
        assert len(await desk.index.page_uids()) == 3


# ---- runs and events ---------------------------------------------------------------------------


async def test_events_have_the_names_and_fields_of_the_specification(desk: Desk) -> None:
    ann = await desk.ann()
    first = await desk.run()
    desk.roam.add_page(NewPage(title="More", blocks=[NewBlock("text")]))
    job = await desk.run(since=1)
    # Its run is the first of all in their list.
    runs = (await told(ann, RUNS))["data"]
    assert [each["run_id"] for each in runs] == [job.id, first.id]
    assert all(list(each) == FIELDS for each in runs)

    page = await told(ann, f"{RUNS}/{job.id}/events")
    events = {each["event"]: each for each in page["data"]}

    named = ["uids_loaded", "since_applied", "metadata_filtered", "chunker_ready", "batch_start"]
    assert [each for each in events if each in named] == named
    assert events["uids_loaded"]["total"] == 11
    assert events["since_applied"]["since"] == 1
    assert events["metadata_filtered"]["to_process"] == 1
    complete = events["batch_complete"]
    assert complete["batch"] == 1
    assert complete["processed"] == {"processed": 1, "total": 1, "percent": 100.0}
    assert complete["stats"] == {"pages_updated": 1, "pages_failed": 0}
    assert complete["timestamp"].endswith("Z")
    assert [each["id"] for each in page["data"]] == sorted(each["id"] for each in page["data"])


async def test_events_are_streamed_and_a_lost_stream_goes_on(desk: Desk) -> None:
    ann = await desk.ann()
    job = await desk.run()
    path, accept = f"{RUNS}/{job.id}/events", {"Accept": "text/event-stream"}

    whole = (await ann.get(path, headers=accept)).text
    frames = [frame for frame in whole.split("\n\n") if "event: " in frame]
    kinds = [frame.partition("event: ")[2].partition("\n")[0] for frame in frames]
    assert kinds[-2:] == ["succeeded", "end"]
    assert kinds.count("batch_complete") == 3

    third = frames[2].partition("id: ")[2].partition("\n")[0]
    rest = (await ann.get(path, headers={**accept, "Last-Event-ID": third})).text
    assert [frame for frame in rest.split("\n\n") if "event: " in frame] == frames[3:]


# ---- searching ---------------------------------------------------------------------------------


async def test_a_search_names_the_page_and_the_block(desk: Desk) -> None:
    ann = await desk.ann()
    assert (await told(ann, "/v1/notes/search", q="anything"))["data"] == []
    made = desk.roam.add_page(
        NewPage(title="Words", blocks=[NewBlock("one thing"), NewBlock("wxyz wxyz")])
    )
    await desk.run()

    found = await told(ann, "/v1/notes/search", q="wxyz", limit=1)

    [hit] = found["data"]
    assert hit["page"] == {"uid": made.uid, "title": "Words"}
    assert (hit["block_uid"], hit["snippet"]) == (made.children[1].uid, "wxyz wxyz")
    assert 0 < hit["score"] <= 1
    wrongs: list[dict[str, Any]]
    wrongs = [{"q": ""}, {"q": " "}, {"q": "x" * 2001}, {"q": "x", "limit": 101}, {}]
    for wrong in wrongs:
        answer = await ann.get("/v1/notes/search", params=wrong)
        problem(answer, 422, "invalid_input")
