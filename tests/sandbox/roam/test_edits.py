"""Edits at run time: what an incremental sync must notice, and what it may skip."""

import pytest

from headgate.base.errors import InvalidInput
from headgate_sandbox.roam.graph import Edit, NewBlock, NewPage
from tests.sandbox.roam.worlds import START, make, newest_ms, page_uids, pull, texts

DAILY = "01-03-2026"
NOW_MS = int(START.timestamp() * 1_000)


async def test_a_new_page_is_found_and_pulled() -> None:
    sandbox, client, _ = make()

    made = sandbox.add_page(NewPage(title="Fresh", blocks=[NewBlock("one"), NewBlock("two")]))
    page = await pull(client, made.uid)

    assert made.uid in await page_uids(client)
    assert (texts(page), newest_ms(page)) == (["one", "two"], NOW_MS)


async def test_an_edited_block_moves_its_own_time_and_not_the_pages() -> None:
    sandbox, client, clock = make()
    before = await pull(client, DAILY)
    block = before[":block/children"][0]

    sandbox.edit_page(Edit(page=DAILY, block=block[":block/uid"], string="Changed"))
    after = await pull(client, DAILY)

    assert after[":edit/time"] == before[":edit/time"]
    assert newest_ms(after) == NOW_MS > newest_ms(before)
    assert texts(after).count("Changed") == 1
    assert len(texts(after)) == len(texts(before))
    assert len(await page_uids(client)) == 40
    # A page can also be touched without a change.
    clock.advance(5)
    sandbox.edit_page(Edit(page=DAILY))
    touched = await pull(client, DAILY)
    assert (texts(touched), newest_ms(touched)) == (texts(after), NOW_MS + 5_000)


async def test_a_block_is_added_at_the_end_and_another_removed() -> None:
    sandbox, client, _ = make()
    before = texts(await pull(client, DAILY))

    sandbox.edit_page(Edit(page=DAILY, append="Last"))
    longer = await pull(client, DAILY)
    last = max(longer[":block/children"], key=lambda child: child[":block/order"])
    sandbox.edit_page(Edit(page=DAILY, remove=last[":block/uid"]))
    shorter = await pull(client, DAILY)

    assert texts(longer) == [*before, "Last"]
    assert texts(shorter) == before
    # What is gone cannot tell the time: the node it hung from does.
    assert shorter[":edit/time"] == NOW_MS


async def test_a_page_is_renamed_and_deleted() -> None:
    sandbox, client, _ = make()
    uid = next(uid for uid in await page_uids(client) if "-" not in uid)

    sandbox.edit_page(Edit(page=uid, title="Renamed"))
    renamed = await pull(client, uid)
    sandbox.delete_page(uid)
    # With a page its blocks are gone, and those of an added one are found.
    block = (await pull(client, DAILY))[":block/children"][0][":block/uid"]
    made = sandbox.add_page(NewPage(title="Fresh", blocks=[NewBlock("one")]))
    sandbox.delete_page(DAILY)

    assert await pull(client, block) is None
    assert (await pull(client, made.children[0].uid))[":block/string"] == "one"
    assert (renamed[":node/title"], renamed[":edit/time"]) == ("Renamed", NOW_MS)
    assert await pull(client, uid) is None
    assert uid not in await page_uids(client)
    assert sandbox.graph().size == 39


async def test_edits_work_over_http_and_a_reset_takes_them_back() -> None:
    sandbox, client, _ = make()
    before = await pull(client, DAILY)

    made = await client.post(
        "/_sandbox/pages", json={"title": "Fresh", "blocks": [{"string": "one"}]}
    )
    edited = await client.post("/_sandbox/edits", json={"page": DAILY, "append": "Last"})
    deleted = await client.send("DELETE", f"/_sandbox/pages/graph-1/{made.json()['uid']}")

    assert (made.status, edited.status, deleted.status) == (201, 200, 200)
    assert texts(await pull(client, DAILY))[-1] == "Last"
    assert (await client.get("/_sandbox/stats")).json()["data"] == {"pages": {"graph-1": 40}}
    sandbox.reset()
    assert await pull(client, DAILY) == before


def test_blocks_have_a_greatest_depth() -> None:
    sandbox, _, _ = make()
    block = NewBlock("deepest")
    for _ in range(20):
        block = NewBlock("higher", [block])

    with pytest.raises(InvalidInput, match="blocks"):
        sandbox.add_page(NewPage(title="Deep", blocks=[block]))
