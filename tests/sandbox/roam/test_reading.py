"""Queries for pages, and pulls of them: by uid, in bulk, recursively and in no order."""

from typing import Any

import pytest

from headgate_sandbox.roam.graph import NewBlock, NewPage
from headgate_sandbox.roam.querying import PAGE_UIDS
from tests.sandbox.clients import Client
from tests.sandbox.roam.worlds import (
    METADATA,
    START,
    WHOLE,
    ask,
    eid,
    eids,
    make,
    newest_ms,
    page_uids,
    pull,
    result,
    texts,
)

NESTED = NewPage(
    title="Nested",
    blocks=[
        NewBlock(f"{number}", [NewBlock(f"{number}.{below}") for below in range(5)])
        for number in range(8)
    ],
)


async def test_every_page_is_found_once() -> None:
    _, client, _ = make(pages=300)

    uids = await page_uids(client)

    assert len(uids) == len(set(uids)) == 300
    assert "01-03-2026" in uids


async def test_a_page_is_pulled_with_everything_below_it() -> None:
    sandbox, client, _ = make()
    made = sandbox.add_page(NESTED)

    page = await pull(client, made.uid)

    assert (page[":block/uid"], page[":node/title"]) == (made.uid, "Nested")
    wanted = [text for n in range(8) for text in (f"{n}", *(f"{n}.{below}" for below in range(5)))]
    assert texts(page) == wanted
    block = page[":block/children"][0]
    assert block.keys() == {
        ":block/uid",
        ":block/string",
        ":block/order",
        ":edit/time",
        ":block/children",
    }
    # A block without children has no such key at all.
    assert ":block/children" not in block[":block/children"][0]


async def test_children_come_in_no_order_but_always_the_same() -> None:
    sandbox, client, _ = make()
    made = sandbox.add_page(NESTED)

    first, second = await pull(client, made.uid), await pull(client, made.uid)

    orders = [child[":block/order"] for child in first[":block/children"]]
    assert orders != sorted(orders) == list(range(8))
    assert first == second


async def test_many_are_pulled_in_the_order_asked_for_and_what_is_missing_is_null() -> None:
    _, client, _ = make()
    uids = sorted(await page_uids(client))[:5]

    asked = [uids[3], "nowhere99", uids[0], "01-01-1999"]
    found = await result(client, "pull-many", eids=eids(*asked), selector=METADATA)

    assert [page and page[":block/uid"] for page in found] == [uids[3], None, uids[0], None]
    assert await result(client, "pull-many", eids="[]", selector=METADATA) == []
    assert await pull(client, "nowhere99") is None


async def test_the_latest_edit_is_below_the_page_and_in_the_past() -> None:
    _, client, _ = make()
    uids = await page_uids(client)

    pages: list[Any] = await result(client, "pull-many", eids=eids(*uids), selector=METADATA)

    later = [page for page in pages if newest_ms(page) > page[":edit/time"]]
    assert len(later) > 30
    assert max(newest_ms(page) for page in pages) < START.timestamp() * 1_000


async def test_a_block_is_pulled_by_its_own_uid() -> None:
    _, client, _ = make()
    page = await pull(client, "01-03-2026")
    block = page[":block/children"][0]

    found = await pull(client, block[":block/uid"], "[:block/string]")

    assert found == {":block/string": block[":block/string"]}


@pytest.mark.parametrize(
    ("selector", "depth"),
    [
        ("[:block/uid]", 0),
        ("[:block/uid {:block/children [:block/uid]}]", 1),
        ("[:block/uid {:block/children ...}]", 2),
        ("[:block/uid {:block/refs [:block/uid]} :no/such]", 0),
    ],
)
async def test_a_selector_says_how_deep(selector: str, depth: int) -> None:
    sandbox, client, _ = make()
    made = sandbox.add_page(NESTED)

    def depth_of(node: Any) -> int:
        return max((1 + depth_of(child) for child in node.get(":block/children", [])), default=0)

    assert depth_of(await pull(client, made.uid, selector)) == depth


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("pull", {"eid": eid("x")}),
        ("pull", {"eid": 7.5, "selector": WHOLE}),
        ("pull", {"eid": '[:block/string "x"]', "selector": WHOLE}),
        ("pull", {"eid": eid("01-03-2026"), "selector": "block/uid"}),
        ("pull", {"eid": eid("01-03-2026"), "selector": "[7]"}),
        ("pull", {"eid": eid("01-03-2026"), "selector": "[*]"}),
        ("pull", {"eid": eid("01-03-2026"), "selector": "[:block/children]"}),
        ("pull", {"eid": eid("01-03-2026"), "selector": "[{:create/user [:db/id]}]"}),
        ("pull", {"eid": eid("01-03-2026"), "selector": "[{:block/children 1}]"}),
        ("pull", {"eid": eid("01-03-2026"), "selector": '[{"a" [:b]}]'}),
        ("pull", {"eid": eid("x") * 2, "selector": WHOLE}),
        ("pull-many", {"eids": ":all", "selector": WHOLE}),
        ("pull-many", {"eids": eids("x") + "]", "selector": WHOLE}),
        ("q", {"args": []}),
        ("q", {"query": PAGE_UIDS, "args": "none"}),
    ],
)
async def test_a_bad_request_is_refused_with_a_message(verb: str, body: dict[str, object]) -> None:
    _, client, _ = make()

    answer = await ask(client, verb, **body)

    assert (answer.status, answer.json().keys()) == (400, {"message"})


async def test_asking_for_too_much_takes_too_long() -> None:
    _, client, _ = make(nodes_max=100)
    uids = await page_uids(client)

    much = await ask(client, "pull-many", eids=eids(*uids), selector=WHOLE)
    less = await ask(client, "pull-many", eids=eids(*uids[:2]), selector=WHOLE)
    queried = await ask(client, "q", query=f"[:find (pull ?p {WHOLE}) :where [?p :node/title]]")

    assert (much.status, less.status, queried.status) == (500, 200, 500)
    assert "took too long to run" in much.json()["message"]


async def test_a_block_refers_to_pages_and_blocks_that_its_text_names() -> None:
    sandbox, client, _ = make(pages=0)
    ada = sandbox.add_page(NewPage(title="Ada", blocks=[NewBlock("A friend")]))
    friend = ada.children[0].uid
    text = f"Call [[Ada]] and #Ada, see (({friend})) and [[Nobody]]"
    made = sandbox.add_page(NewPage(title="Plans", blocks=[NewBlock(text)]))
    selector = "[:node/title :block/string {:block/children ...} {:block/refs [:block/uid]}]"

    page = await result(client, "pull", eid='[:node/title "Plans"]', selector=selector)
    block = await pull(client, made.children[0].uid, "[:block/order]")

    [child] = page[":block/children"]
    assert {ref[":block/uid"] for ref in child.pop(":block/refs")} == {ada.uid, friend}
    assert (page, child) == (
        {":node/title": "Plans", ":block/children": [child]}, {":block/string": text}
    )  # fmt: skip
    assert block == {":block/order": 0}


async def test_children_are_pulled_up_to_a_limit_that_the_selector_can_lift() -> None:
    sandbox, client, _ = make(pages=0)
    made = sandbox.add_page(NewPage(title="Long", blocks=[NewBlock(f"{n}") for n in range(1_005)]))

    async def count(selector: str) -> int:
        return len((await pull(client, made.uid, selector))[":block/children"])

    assert await count("[{:block/children [:block/uid]}]") == 1_000
    assert await count("[{(limit :block/children nil) [:block/uid]}]") == 1_005


async def test_graphs_have_contents_of_their_own() -> None:
    sandbox, client, _ = make(graphs=2)
    other = Client(sandbox, sandbox.token("graph-2"))

    async def everything(client: Client, graph: str) -> object:
        path = f"/peer-7/api/graph/{graph}/pull"
        return (await client.post(path, json={"eid": eid("01-03-2026"), "selector": WHOLE})).json()

    assert await everything(client, "graph-1") != await everything(other, "graph-2")
