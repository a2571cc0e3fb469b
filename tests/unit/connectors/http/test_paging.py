"""Lists page by page, in each of the ways that providers have."""

from typing import Any

import pytest

from headgate.base.errors import Malformed
from headgate.connectors.http.paging import LinkHeader, NextBy, NextToken, PageNumber
from headgate.ports.http import Paging
from headgate.ports.transport import Response
from tests.unit.connectors.fakes import Bench, answer


async def read(bench: Bench, paging: Paging, **params: Any) -> list[Any]:
    return [page.json() async for page in bench.http.pages("/list", params, paging=paging)]


async def test_numbered_pages_end_with_an_empty_one_or_a_short_one() -> None:
    bench = Bench(answer(body=[1, 2]), answer(body=[3]), answer(body=[]))

    assert await read(bench, PageNumber(), per_page=2) == [[1, 2], [3], []]
    assert bench.transport.sent == [
        f"GET https://api.example/v1/list?per_page=2&page={number}" for number in (1, 2, 3)
    ]
    assert len(bench.gate.asked) == 3

    bench = Bench(answer(body={"items": [1, 2]}), answer(body={"items": [3]}))
    paging = PageNumber(param="p", start=0, items=lambda page: page["items"], full=2)
    assert len(await read(bench, paging)) == 2
    assert bench.transport.sent[1].endswith("/list?p=1")


async def test_a_token_may_lie_deeper_and_a_page_that_is_no_list_is_the_last() -> None:
    deep = Bench(answer(body={"meta": {"next": "x"}}), answer(body={"meta": {"next": ""}}))
    assert len(await read(deep, NextToken(param="cursor", field=("meta", "next")))) == 2
    assert await read(Bench(answer(body={"message": "?"})), PageNumber()) == [{"message": "?"}]


@pytest.mark.parametrize(
    ("tokens", "said"), [([[1]], "a list"), (["a", "b", "a"], "go in circles")]
)
async def test_a_token_that_is_none_and_pages_that_go_in_circles_are_malformed(
    tokens: list[object], said: str
) -> None:
    bench = Bench(*(answer(body={"nextPageToken": each}) for each in tokens))

    with pytest.raises(Malformed, match=said):
        await read(bench, NextToken())
    assert len(bench.transport.requests) == len(tokens)


async def test_a_token_leads_to_the_next_page() -> None:
    bench = Bench(
        answer(body={"nextPageToken": "a&b"}), answer(body={"nextPageToken": 7}), answer(body={})
    )

    assert len(await read(bench, NextToken(), day="2026-01-05")) == 3
    assert [sent.partition("?")[2] for sent in bench.transport.sent] == [
        "day=2026-01-05",
        "day=2026-01-05&pageToken=a%26b",
        "day=2026-01-05&pageToken=7",
    ]


@pytest.mark.parametrize(
    "link",
    [
        '<https://api.example/v1/list?page=2>; rel="next"',
        '</v1/list?page=2>; rel=next; title="x"',
        '<https://api.example/v1/list?page=9>; rel="last", <list?page=2>; rel="prev next"',
    ],
)
async def test_a_link_leads_to_the_next_page(link: str) -> None:
    bench = Bench(answer(body=[1], headers={"Link": link}), answer(body=[2]))

    assert await read(bench, LinkHeader(), per_page=1) == [[1], [2]]
    # The link has its own parameters; ours are for the first page.
    assert bench.transport.sent[1] == "GET https://api.example/v1/list?page=2"


@pytest.mark.parametrize("link", ["", "garbage", "<>; rel", '<x>; rel="prev"', "<x>;;;, <y"])
async def test_no_link_is_the_end(link: str) -> None:
    assert len(await read(Bench(answer(headers={"Link": link})), LinkHeader())) == 1


@pytest.mark.parametrize(
    "link",
    [
        *(f"{scheme}://evil.example/v1/list" for scheme in ("https", "ftp")),
        *("http://api.example/v1/list", "//evil.example/", "ftp://api.example/"),
        *("https://api.example:444/v1/list", "https://api.example@evil.example/"),
    ],
)
async def test_a_link_that_leads_elsewhere_gets_no_credentials(link: str) -> None:
    bench = Bench(answer(headers={"Link": f"<{link}>; rel=next"}))

    with pytest.raises(Malformed):
        await read(bench, LinkHeader())
    assert len(bench.transport.requests) == 1


async def test_a_connector_may_have_a_way_of_its_own() -> None:
    def after(response: Response) -> dict[str, object] | str | None:
        at = response.json()["at"]
        return {"offset": at + 1} if at == 0 else "/list/rest" if at == 1 else None

    bench = Bench(*(answer(body={"at": number}) for number in range(3)))

    assert len(await read(bench, NextBy(after), sort="new")) == 3
    assert [sent.removeprefix("GET https://api.example") for sent in bench.transport.sent] == [
        "/v1/list?sort=new",
        "/v1/list?sort=new&offset=1",
        "/list/rest",
    ]
