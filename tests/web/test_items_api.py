"""Items under /v1, of whatever collection: ones own, page by page, and reset by an admin."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from headgate.base.errors import IllegalTransition
from tests.collecting import ATTACHMENTS, COMMENTS, connect, notes_sync, put, stuck
from tests.connecting import Site, vault
from tests.web.callers import Client, Served, problem, served
from tests.worlds import World, as_test, in_world


def serving_notes(folder: Path, main: Callable[[Served], Awaitable[None]]) -> None:
    """Run `main` with an application of two collections."""

    async def run(world: World) -> None:
        wire = Site(world).wire
        await main(await served(world, notes_sync(), transport=wire, vault=vault()))

    in_world(folder, run)


with_notes = as_test(serving_notes)


async def ids(client: Client, **params: Any) -> list[str]:
    """Which items are listed."""
    answer = await client.get("/v1/items", params=params)
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["data"]]


@with_notes
async def test_items_are_listed_by_collection_and_state_and_only_ones_own(served: Served) -> None:
    await stuck(served.app, "a")
    await put(served.app, "b", COMMENTS)
    await put(served.app, "c", user_id="bob", connection_id="bob-1")
    ada, admin = await served.client(), await served.admin()

    assert await ids(ada) == ["a", "b"]
    assert await ids(ada, collection=COMMENTS.name) == ["b"]
    assert await ids(ada, state=["failed", "success"]) == ["a"]
    assert await ids(ada, user_id="ada", state="pending") == ["b"]
    assert await ids(admin) == ["a", "b", "c"]
    assert await ids(admin, user_id="bob") == ["c"]
    assert await ids(await served.client(user_id="eve"), collection=COMMENTS.name) == []
    unknown = await ada.get("/v1/items", params={"collection": "x"})
    told = problem(unknown, 422, "invalid_input")
    assert told["field"] == "collection"
    assert told["detail"].endswith("there are: notes.attachments, notes.comments")


@with_notes
async def test_a_long_list_goes_on_where_it_ended(served: Served) -> None:
    names = ["a", "b/c", "d" * 400]
    for each in names:
        await put(served.app, each)
    ada = await served.client()
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 1, "collection": ATTACHMENTS.name}

    while True:
        page = (await ada.get("/v1/items", params=params)).json()
        seen += [each["id"] for each in page["data"]]
        if page["next_cursor"] is None:
            break
        params["after"] = page["next_cursor"]

    assert seen == names


@with_notes
async def test_an_item_is_told_with_how_it_stands_and_nothing_of_the_engines_own(
    served: Served,
) -> None:
    await stuck(served.app, "folder/a b")
    ada = await served.client()
    path = "/v1/items/folder/a%20b"

    answer = await ada.get(path)

    told = answer.json()
    assert (told["id"], told["collection"], told["state"]) == (
        "folder/a b",
        "notes.attachments",
        "failed",
    )
    assert (told["stuck"], told["retry_count"]) == (True, 1)
    assert told["message"] == "It could not be fetched, and is not tried again by itself."
    # What went wrong in the words of programs is for operators.
    assert told["error"] is None
    assert (await (await served.admin()).get(path)).json()["error"] == "Malformed: no JSON"
    assert not {"token", "worker", "lease_until"} & set(told)


@with_notes
async def test_an_admin_sets_a_stuck_one_going_again(served: Served) -> None:
    connection = await connect(served.app)
    await stuck(served.app, "folder/a", connection_id=connection.id)
    path = "/v1/items/folder/a/reset"

    answer = await (await served.admin()).post(path)

    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["state"], told["retry_count"], told["stuck"]) == ("pending", 0, False)
    [job] = await served.app.jobs.list()
    assert (job.sync, job.connection_id) == (ATTACHMENTS.fetched_by, connection.id)


@with_notes
async def test_what_cannot_be_reset_says_why(served: Served) -> None:
    await put(served.app, "a", COMMENTS, external_id=None)
    admin = await served.admin()

    problem(await admin.post("/v1/items/nobodys/reset"), 404, "not_found")
    answer = await admin.post("/v1/items/a/reset")
    problem(answer, 409, "illegal_transition")
    assert IllegalTransition.__name__ not in answer.text
