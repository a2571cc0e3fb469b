"""Reading pages: what is wrong with an answer is an error, and never a graph with fewer pages."""

from typing import Any

import msgspec
import pytest

from headgate import InvalidInput, Malformed
from headgate.connectors import Response
from headgate.connectors.auth.tokens import InHeader
from headgate.connectors.roam.api import SlowRequest, classify
from headgate.connectors.roam.pages import PULL_MAX, list_pages, pull_pages
from tests.unit.connectors.fakes import Bench, FakeAccess, answer

PAGE = {":block/uid": "a", ":node/title": "A", ":edit/time": 3}
SLOW = answer(500, {"message": "Your query took too long to run"})


def bench(*answers: Any) -> Bench:
    access = FakeAccess(InHeader("X-Authorization"), external_id="my-graph")
    return Bench(*answers, access=access, classify=classify)


def result(value: Any) -> Response:
    return answer(body={"result": value})


def head(uid: str, **more: Any) -> list[Any]:
    return [{":block/uid": uid, ":node/title": uid.upper(), **more}]


def asked(at: Bench) -> list[Any]:
    return [msgspec.json.decode(each.body) for each in at.transport.requests]


async def test_pages_are_listed_with_their_latest_edit_in_two_requests() -> None:
    at = bench(
        result([
            head("b", **{":edit/time": 50}), head("a", **{":edit/time": 10}), head("c"),
            head("d", **{":create/time": 7}),
        ]),
        result([["a", 40], ["b", 20], ["new", 99]]),
    )  # fmt: skip

    listed = await list_pages(at.http)

    assert [(page.uid, page.title, page.edited_ms) for page in listed] == [
        ("a", "A", 40), ("b", "B", 50), ("c", "C", 0), ("d", "D", 7),
    ]  # fmt: skip
    assert len(at.transport.requests) == 2


async def test_edit_times_come_in_ever_smaller_slices_while_roam_needs_too_long() -> None:
    at = bench(
        result([head(uid) for uid in "abc"]), SLOW, SLOW, result([["a", 1]]), SLOW,
        result([["b", 2]]), result([["c", 3]]),
    )  # fmt: skip

    listed = await list_pages(at.http)

    assert [page.edited_ms for page in listed] == [1, 2, 3]
    assert [each["args"] for each in asked(at)[1:]] == [
        [], [["a", "b", "c"]], [["a"]], [["b", "c"]], [["b"]], [["c"]],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "answers",
    [
        [result(None)],
        [result({})],
        [answer(body={})],
        [answer(body=[])],
        [result([[{":node/title": "A"}]])],
        [result([head("a")]), result([["a"]])],
        [result([head("a")]), result([["a", "late"]])],
        [result([head("a")]), answer(body={"message": "Oops"})],
        [result([head("a")]), answer(200, b'{"result": [["a", 1]')],
    ],
)
async def test_a_list_that_cannot_be_read_is_an_error(answers: list[Response]) -> None:
    with pytest.raises(Malformed):
        await list_pages(bench(*answers).http)


async def test_what_stays_too_slow_or_is_not_what_was_asked_for_is_an_error_too() -> None:
    with pytest.raises(SlowRequest):
        await list_pages(bench(result([head("a"), head("b")]), SLOW).http)
    with pytest.raises(SlowRequest):
        await list_pages(bench(SLOW).http)
    with pytest.raises(SlowRequest):
        await pull_pages(bench(SLOW).http, ["a", "b"])
    for pulled in ([], [PAGE], [PAGE, PAGE, PAGE], None, "a"):
        with pytest.raises(Malformed):
            await pull_pages(bench(result(pulled)).http, ["a", "b"])


async def test_pages_are_pulled_together_and_what_is_gone_is_told() -> None:
    below = {":block/uid": "y", ":block/string": "below", ":block/order": 0, ":edit/time": 8}
    blocks = [
        {":block/uid": "z", ":block/string": "last", ":block/order": 1, ":block/heading": 2},
        {":block/uid": "x", ":block/string": "first", ":block/order": 0, ":block/children": [below],
         ":block/refs": [{":block/uid": "r", ":node/title": "R"}]},
    ]  # fmt: skip
    at = bench(result([None, {**PAGE, ":block/children": blocks}, {}, {":block/uid": "d"}]))

    pulled = await pull_pages(at.http, ["b", "a", "c", "d"])

    [page] = pulled.pages
    assert pulled.missing == ("b", "c", "d")
    assert [(block.string, depth) for block, depth in page.blocks()] == [
        ("first", 0), ("below", 1), ("last", 0),
    ]  # fmt: skip
    assert (page.edit_ms, page.edited_ms) == (3, 8)
    assert page.children[1].heading == 2
    assert page.children[0].refs[0].title == "R"
    assert asked(at)[0]["eids"] == (
        '[[:block/uid "b"] [:block/uid "a"] [:block/uid "c"] [:block/uid "d"]]'
    )


async def test_a_pull_that_takes_too_long_is_halved_and_nothing_is_asked_for_nothing() -> None:
    at = bench(SLOW, result([PAGE]), result([None]))

    pulled = await pull_pages(at.http, ["a", "b"])

    assert ([page.uid for page in pulled.pages], pulled.missing) == (["a"], ("b",))
    assert len(at.transport.requests) == 3
    assert (await pull_pages(at.http, [])).pages == ()
    with pytest.raises(InvalidInput, match="uids"):
        await pull_pages(at.http, ["a"] * (PULL_MAX + 1))
    assert len(at.transport.requests) == 3


@pytest.mark.parametrize(
    "pulled",
    [
        PAGE,
        {":block/uid": "b", ":node/title": "B", ":block/children": [{":block/string": "no uid"}]},
        {":block/uid": "b", ":node/title": "B", ":block/children": "many"},
        "b",
    ],
)
async def test_a_page_that_cannot_be_read_keeps_no_other_from_it(pulled: Any) -> None:
    found = await pull_pages(bench(result([PAGE, pulled])).http, ["a", "b"])

    assert ([page.uid for page in found.pages], found.missing) == (["a"], ())
    assert "the page" in found.unreadable["b"]


async def test_a_page_that_roam_needs_too_long_for_alone_keeps_no_other_from_being_read() -> None:
    # Together, the first alone, the second alone, and the least of the second.
    at = bench(SLOW, result([PAGE]), SLOW, result([{":block/uid": "b"}]))

    found = await pull_pages(at.http, ["a", "b"])

    assert [page.uid for page in found.pages] == ["a"]
    assert "20 s" in found.unreadable["b"]
    assert asked(at)[-1]["selector"] == "[:block/uid]"
