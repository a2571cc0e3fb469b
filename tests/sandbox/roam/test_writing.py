"""Writing: the actions of the real API, edit times, and refusals."""

import pytest

from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.roam.querying import BLOCKS_WITH
from headgate_sandbox.roam.sandbox import Role
from tests.sandbox.clients import Client
from tests.sandbox.roam.worlds import (
    START,
    ask,
    eid,
    make,
    newest_ms,
    page_uids,
    pull,
    result,
    texts,
)

DAILY = "01-03-2026"
LOOK = "[:block/heading :block/open :block/text-align :children/view-type]"
NOW_MS = int(START.timestamp() * 1_000)


async def write(client: Client, action: str, **body: object) -> None:
    answer = await ask(client, "write", action=action, **body)
    assert (answer.status, answer.body) == (200, b""), answer.body


async def block_uid(client: Client, string: str) -> str:
    rows = await result(client, "q", query=BLOCKS_WITH, args=[string])
    [uid] = [uid for uid, text in rows if text == string]
    return str(uid)


async def create(client: Client, string: str, parent: str = DAILY, order: object = "last") -> str:
    await write(
        client, "create-block", location={"parent-uid": parent, "order": order},
        block={"string": string},
    )  # fmt: skip
    return await block_uid(client, string)


@pytest.mark.parametrize(("order", "place"), [("first", 0), ("last", -1), (1, 1), (999, -1)])
async def test_a_block_is_created_at_its_place(order: object, place: int) -> None:
    _, client, _ = make()
    before = await pull(client, DAILY)

    uid = await create(client, "Fresh", order=order)
    after = await pull(client, DAILY)

    children = sorted(after[":block/children"], key=lambda each: each[":block/order"])
    assert children[place][":block/uid"] == uid
    assert children[place][":edit/time"] == newest_ms(after) == NOW_MS
    # A page's own time is its own.
    assert after[":edit/time"] == before[":edit/time"] < NOW_MS
    assert len(texts(after)) == len(texts(before)) + 1


async def test_a_block_has_what_it_was_created_with() -> None:
    _, client, _ = make()

    await write(
        client, "create-block", location={"parent-uid": DAILY, "order": "last"},
        block={"string": "x", "uid": "my-own-id", "heading": 2, "open": False,
               "text-align": "center", "children-view-type": "numbered"},
    )  # fmt: skip
    block = await pull(client, "my-own-id", LOOK)

    assert (block[":block/heading"], block[":block/open"]) == (2, False)
    assert (block[":block/text-align"], block[":children/view-type"]) == ("center", ":numbered")


async def test_an_updated_block_alone_gets_a_new_time() -> None:
    _, client, clock = make()
    above = await create(client, "above")
    below = await create(client, "below", parent=above)
    clock.advance(5)

    await write(client, "update-block", block={"uid": below, "string": "new", "heading": 1})
    page = await pull(client, DAILY)

    assert (await pull(client, below, "[:block/string :block/heading :edit/time]")) == {
        ":block/string": "new",
        ":block/heading": 1,
        ":edit/time": NOW_MS + 5_000,
    }
    assert (await pull(client, above, "[:edit/time]"))[":edit/time"] == NOW_MS
    assert newest_ms(page) == NOW_MS + 5_000


async def test_a_block_is_moved_with_what_is_below_it_and_both_pages_tell() -> None:
    _, client, clock = make()
    other = next(uid for uid in await page_uids(client) if "-" not in uid)
    above = await create(client, "above")
    below = await create(client, "below", parent=above)
    clock.advance(5)

    await write(
        client, "move-block", block={"uid": above}, location={"parent-uid": other, "order": 0}
    )

    there, left = await pull(client, other), await pull(client, DAILY)
    assert texts(there)[:2] == ["above", "below"]
    assert "above" not in texts(left)
    assert newest_ms(there) == newest_ms(left) == NOW_MS + 5_000
    # A drawn block can be moved too, and found where it went.
    drawn = left[":block/children"][0][":block/uid"]
    await write(
        client, "move-block", block={"uid": drawn}, location={"parent-uid": below, "order": "last"}
    )
    assert (await pull(client, below, "[{:block/children [:block/uid]}]")) == {
        ":block/children": [{":block/uid": drawn}]
    }


async def test_blocks_change_places_on_their_page() -> None:
    _, client, _ = make()
    await write(client, "create-page", page={"title": "Order", "uid": "order-page"})
    uids = [await create(client, string, parent="order-page") for string in ("a", "b", "c")]

    await write(
        client, "move-block", block={"uid": uids[2]},
        location={"parent-uid": "order-page", "order": 0},
    )  # fmt: skip

    assert texts(await pull(client, "order-page")) == ["c", "a", "b"]


async def test_a_deleted_block_is_gone_and_what_it_was_below_tells() -> None:
    _, client, clock = make()
    above = await create(client, "above")
    below = await create(client, "below", parent=above)
    clock.advance(5)

    await write(client, "delete-block", block={"uid": below})

    assert await pull(client, below) is None
    assert (await pull(client, above, "[:edit/time]"))[":edit/time"] == NOW_MS + 5_000


async def test_a_page_is_created_renamed_and_deleted() -> None:
    _, client, clock = make()

    await write(client, "create-page", page={"title": "Fresh", "uid": "fresh-one"})
    clock.advance(5)
    await write(client, "update-page", page={"uid": "fresh-one", "title": "Renamed"})
    renamed = await pull(client, "fresh-one", "[:node/title :edit/time]")
    await write(client, "delete-page", page={"uid": "fresh-one"})

    assert renamed == {":node/title": "Renamed", ":edit/time": NOW_MS + 5_000}
    assert await pull(client, "fresh-one") is None
    assert len(await page_uids(client)) == 40
    await write(client, "create-page", page={"title": "Renamed"})


HERE = {"parent-uid": DAILY, "order": "last"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "Invalid action null"),
        ({"action": "burn"}, "Invalid action burn, expected one of create-block"),
        ({"action": "create-block", "location": HERE}, "missing required field block"),
        ({"action": "create-block", "location": HERE, "block": {}}, "required field string"),
        ({"action": "create-block", "location": {"order": 0}, "block": {"string": ""}},
         "required field parent-uid"),
        ({"action": "create-block", "location": {**HERE, "order": "middle"},
          "block": {"string": ""}}, "location.order"),
        ({"action": "create-block", "location": {**HERE, "order": -1},
          "block": {"string": ""}}, "location.order"),
        ({"action": "create-block", "location": {**HERE, "parent-uid": "nowhere99"},
          "block": {"string": ""}}, 'Parent entity with uid "nowhere99"'),
        ({"action": "create-block", "location": HERE, "block": {"string": "", "uid": DAILY}},
         "already exists"),
        ({"action": "create-block", "location": HERE, "block": {"string": "", "heading": 4}},
         "Invalid enum value 4"),
        ({"action": "update-block", "block": {"string": "x"}}, "required field uid"),
        ({"action": "update-block", "block": {"uid": DAILY, "string": "x"}}, "doesn't exist"),
        ({"action": "update-block", "block": {"uid": "a", "order": 2}}, "unknown field order"),
        ({"action": "create-page", "page": {"title": "January 3rd, 2026"}}, "already exists"),
        ({"action": "create-page", "page": {"title": ""}}, "page.title"),
        ({"action": "update-page", "page": {"title": "x"}}, "required field uid"),
        ({"action": "update-page", "page": {"uid": "01-02-2026", "title": "January 3rd, 2026"}},
         "already exists"),
        ({"action": "delete-page", "page": {"uid": "nowhere99"}}, "Page with uid"),
        ({"action": "batch-actions", "actions": []}, "Invalid action batch-actions"),
    ],
)  # fmt: skip
async def test_a_wrong_action_is_refused_and_changes_nothing(
    body: dict[str, object], text: str
) -> None:
    sandbox, client, _ = make()
    before = await pull(client, DAILY)

    answer = await ask(client, "write", **body)

    assert (answer.status, answer.json().keys()) == (400, {"message"})
    assert text in answer.json()["message"]
    assert await pull(client, DAILY) == before
    assert sandbox.graph().size == 40


async def test_a_block_does_not_go_below_itself() -> None:
    _, client, _ = make()
    above = await create(client, "above")
    below = await create(client, "below", parent=above)

    answer = await ask(
        client, "write", action="move-block", block={"uid": above},
        location={"parent-uid": below, "order": 0},
    )  # fmt: skip

    assert answer.status == 400
    assert "below itself" in answer.json()["message"]
    assert texts(await pull(client, DAILY))[-2:] == ["above", "below"]


@pytest.mark.parametrize(
    ("role", "reads", "writes"),
    [(Role.EDIT, 200, 200), (Role.READ, 200, 401), (Role.APPEND, 401, 401)],
)
async def test_a_token_may_do_what_its_role_allows(role: Role, reads: int, writes: int) -> None:
    sandbox, _, _ = make()
    client = Client(sandbox, sandbox.token(role=role))

    read = await ask(client, "pull", eid=eid(DAILY), selector="[:block/uid]")
    written = await ask(client, "write", action="create-page", page={"title": "Fresh"})

    assert (read.status, written.status) == (reads, writes)


async def test_an_encrypted_graph_is_refused_until_it_is_readable_again() -> None:
    _, client, _ = make()

    async def statuses() -> list[int]:
        read = await ask(client, "pull", eid=eid(DAILY), selector="[:block/uid]")
        title = f"Page {read.status}"
        written = await ask(client, "write", action="create-page", page={"title": title})
        return [read.status, written.status]

    await client.post("/_sandbox/graphs/graph-1", json={"encrypted": True})
    refused = await ask(client, "pull", eid=eid(DAILY), selector="[:block/uid]")
    locked = await statuses()
    await client.post("/_sandbox/graphs/graph-1", json={"encrypted": False})

    assert "Encrypted" in refused.json()["message"]
    assert (locked, await statuses()) == ([400, 400], [200, 200])


async def test_a_write_whose_answer_is_lost_has_happened() -> None:
    sandbox, client, _ = make()
    sandbox.faults.add(Fault(kind=FaultKind.OUTAGE, times=1, after=True))

    lost = await ask(client, "write", action="create-page", page={"title": "Fresh"})
    again = await ask(client, "write", action="create-page", page={"title": "Fresh"})

    assert (lost.status, again.status) == (503, 400)


async def test_a_block_may_get_the_uid_of_a_page_that_was_deleted() -> None:
    _, client, _ = make()
    await write(client, "create-page", page={"title": "Gone", "uid": "reused-id"})
    await write(client, "delete-page", page={"uid": "reused-id"})

    await write(
        client, "create-block", location={"parent-uid": DAILY, "order": "last"},
        block={"string": "Here now", "uid": "reused-id"},
    )  # fmt: skip
    await write(client, "update-block", block={"uid": "reused-id", "string": "And found"})

    assert texts(await pull(client, DAILY))[-1] == "And found"
