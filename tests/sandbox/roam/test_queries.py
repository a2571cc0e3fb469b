"""The queries that are answered: those that are known to be sent. Any other is refused."""

import pytest

from headgate_sandbox.roam.graph import Edit, NewBlock, NewPage
from headgate_sandbox.roam.querying import ALL_EDITS, BLOCKS_WITH, PAGE_UIDS, SOME_EDITS
from headgate_sandbox.roam.sandbox import Roam
from tests.sandbox.clients import Client
from tests.sandbox.roam.worlds import START, ask, make, result

HEADS = "[:find (pull ?p [:node/title :edit/time]) :where [?p :node/title]]"
NOW_MS = int(START.timestamp() * 1_000)


def with_plans() -> tuple[Roam, Client, list[str]]:
    """A graph of three pages alone, with their uids: one of them has no blocks."""
    sandbox, client, clock = make(pages=0)
    below = [NewBlock("green ones")]
    pages = [
        sandbox.add_page(NewPage(title="Plans", blocks=[NewBlock("Buy apples", below)])),
        sandbox.add_page(NewPage(title="Pies", blocks=[NewBlock("apple pie")])),
        sandbox.add_page(NewPage(title="Empty")),
    ]
    clock.advance(5)
    edited = pages[0].children[0].children[0].uid
    sandbox.edit_page(Edit(page=pages[0].uid, block=edited, string="red ones"))
    return sandbox, client, [page.uid for page in pages]


async def test_every_page_is_pulled_by_a_query() -> None:
    _, client, _ = with_plans()

    rows = await result(client, "q", query=HEADS)

    assert sorted((row[":node/title"], row[":edit/time"]) for (row,) in rows) == [
        ("Empty", NOW_MS), ("Pies", NOW_MS), ("Plans", NOW_MS),
    ]  # fmt: skip


async def test_the_uids_of_all_pages_come_in_no_order_but_always_the_same() -> None:
    _, client, _ = make()

    first, second = [await result(client, "q", query=PAGE_UIDS) for _ in range(2)]

    assert first == second != sorted(first)
    assert len({uid for (uid,) in first}) == 40


async def test_the_latest_edit_of_every_page_with_blocks_or_of_some_is_one_query() -> None:
    _, client, [plans, pies, empty] = with_plans()

    every = await result(client, "q", query=ALL_EDITS)
    some = await result(client, "q", query=SOME_EDITS, args=[[plans, empty, "nowhere99"]])

    assert sorted(every) == sorted([[plans, NOW_MS + 5_000], [pies, NOW_MS]])
    assert some == [[plans, NOW_MS + 5_000]]


async def test_blocks_are_found_by_a_part_of_their_text() -> None:
    _, client, _ = with_plans()

    rows = await result(client, "q", query=BLOCKS_WITH, args=["apple"])

    assert sorted(text for _, text in rows) == ["Buy apples", "apple pie"]


@pytest.mark.parametrize(
    ("query", "args", "text"),
    [
        ("nonsense", [], "these queries alone: [:find (pull ?p […])"),
        ("[:find ?uid", [], "EOF while reading"),
        ("[:find ?t :where [?p :node/title ?t]]", [], "these queries alone"),
        (SOME_EDITS, [], "Wrong arguments"),
        (BLOCKS_WITH, [["a"]], "Wrong arguments"),
        (ALL_EDITS, ["a"], "Wrong arguments"),
    ],
)
async def test_any_other_query_is_refused_and_told_which_are_answered(
    query: str, args: list[object], text: str
) -> None:
    _, client, _ = make()

    answer = await ask(client, "q", query=query, args=args)

    assert (answer.status, answer.json().keys()) == (400, {"message"})
    assert text in answer.json()["message"]


async def test_a_query_that_looks_at_too_much_takes_too_long() -> None:
    _, client, _ = make(pages=200, steps_max=500)

    pages = await ask(client, "q", query=PAGE_UIDS)
    edits = await ask(client, "q", query=ALL_EDITS)
    blocks = await ask(client, "q", query=BLOCKS_WITH, args=[""])

    assert (pages.status, edits.status, blocks.status) == (200, 500, 500)
    assert "took too long to run" in edits.json()["message"]
