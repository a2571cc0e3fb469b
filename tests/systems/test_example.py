"""The example of a system: each of its parts does what it is there for."""

import ast
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples.reading_list import metrics, tables
from headgate import ItemState
from headgate_sandbox.kit.faults import FaultKind
from tests.systems.rig import Place, reading_list, working
from tests.web.callers import problem

LIST = "/v1/reading-list"
FOLDER = Path(tables.__file__).parent
PUBLIC = ("headgate", "headgate.toolkit", "headgate.connectors")


@pytest.fixture
async def place(sqlite_address: str) -> AsyncIterator[Place]:
    """The example alone, with a shelf that has been read for ada."""
    async with working(sqlite_address, reading_list()) as place:
        await place.read_shelf("ada")
        yield place


@pytest.fixture
async def postgres_place(postgres_address: str) -> AsyncIterator[Place]:
    """The same on Postgres."""
    async with working(postgres_address, reading_list()) as place:
        await place.read_shelf("ada")
        yield place


async def test_everything_on_the_shelf_is_fetched_and_what_is_gone_is_unavailable(
    place: Place,
) -> None:
    stats = await place.app.items.stats("shelf.articles")

    counted = {state: count for state, count in stats.states.items() if count}
    assert counted == {ItemState.SUCCESS: 11, ItemState.UNAVAILABLE: 1}
    served = await place.app.items.serve("shelf-ada-7", user_id="ada")
    assert served.document is not None
    assert served.document.content() == b"This is the text of article 7.\n"


async def test_a_list_of_several_pages_is_read_to_its_end(sqlite_address: str) -> None:
    async with working(sqlite_address, reading_list(), articles=60) as place:
        await place.read_shelf("ada")

        records = await place.app.records.list("reading-list", "ada")
        assert len(records) == 60
        assert place.wire.count("/v1/shelves/ada") == 2


async def test_an_article_that_fails_keeps_no_other_back(sqlite_address: str) -> None:
    async with working(sqlite_address, reading_list()) as place:
        # Given a service that fails over one article, as often as it is asked within a chunk
        place.shelf.faults.next(FaultKind.SERVER_ERROR, path="/v1/articles/3", times=3)

        # When the shelf is read
        await place.app.jobs.submit("reading-list", user_id="ada")
        item = await place.settled("shelf-ada-12")

        # Then the others are there, and that one is tried again later
        assert item.state is ItemState.SUCCESS
        failed = await place.app.items.get("shelf-ada-3")
        assert failed.state is ItemState.FAILED and not failed.stuck


async def test_the_list_says_what_was_read_and_the_metric_counts_it_and_names_nobody(
    place: Place,
) -> None:
    async with await place.client() as ada, await place.admin() as admin:
        first = await ada.put(f"{LIST}/shelf-ada-7/read")
        # The first time is kept.
        assert (await ada.put(f"{LIST}/shelf-ada-7/read")).json() == first.json()
        listed = (await ada.get(LIST)).json()["data"]
        page = (await admin.get("/metrics")).text

    assert first.json()["read_at"] is not None
    articles = {each["id"]: each for each in listed}
    assert len(articles) == 12
    assert articles["shelf-ada-7"]["title"] == "Article 7"
    assert [each for each in articles if articles[each]["read_at"]] == ["shelf-ada-7"]
    [family] = await metrics.metrics(place.app)
    [sample] = family.samples
    assert (sample.name, sample.value) == ("reading_list_articles_read", 1)
    assert sample.labels == {}
    assert "reading_list_articles_read 1.0" in page
    assert 'headgate_metrics_failed{part="system:reading-list"} 0.0' in page


async def test_a_long_list_comes_in_pages_and_once(place: Place) -> None:
    async with await place.client() as ada:
        first = await ada.get(LIST, params={"limit": 10})
        more = {"limit": 10, "after": first.json()["next_cursor"]}
        rest = (await ada.get(LIST, params=more)).json()
        tag = {"If-None-Match": first.headers["etag"]}
        again = await ada.get(LIST, params={"limit": 10}, headers=tag)

    assert [len(first.json()["data"]), len(rest["data"])] == [10, 2]
    assert rest["next_cursor"] is None
    assert again.status_code == 304


async def test_what_is_anothers_is_not_found(place: Place) -> None:
    async with await place.client(user_id="eve") as eve, await place.admin() as admin:
        assert (await eve.get(LIST)).json()["data"] == []
        for method, path in (("PUT", "read"), ("POST", "link")):
            for article in ("shelf-ada-7", "shelf-ada-99"):
                answer = await eve.request(method, f"{LIST}/{article}/{path}")
                problem(answer, 404, "not_found")
            assert (await admin.request(method, f"{LIST}/shelf-ada-7/{path}")).status_code == 200

    assert await place.app.read(lambda tx: tables.marks_of(tx, "eve", ["shelf-ada-7"])) == {}


async def test_a_link_opens_the_page_of_one_article_with_its_static_file(place: Place) -> None:
    async with await place.client() as ada, place.browser() as browser:
        url = (await ada.post(f"{LIST}/shelf-ada-7/link")).json()["url"]
        page = await browser.get(urlsplit(url).path)
        style = re.search(r'href="(/static/[^"]+/reading_list\.css)"', page.text)
        assert style is not None
        file = await browser.get(style[1])
        spoilt = await browser.get(f"{urlsplit(url).path}x")
        links = place.web.state.api.site.links
        of_another_kind = links.page_token("activity", "shelf-ada-7", user_id="ada")
        assert (await browser.get(f"/reading/{of_another_kind}")).status_code == 404

    assert page.status_code == 200
    assert "This is the text of article 7." in page.text and "Not read yet" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert file.status_code == 200 and ".article" in file.text
    assert spoilt.status_code == 404 and "This link does not work" in spoilt.text


async def test_erasing_a_user_leaves_the_marks_of_others(postgres_place: Place) -> None:
    place = postgres_place
    await place.read_shelf("bob")
    for user in ("ada", "bob"):
        async with await place.client(user_id=user) as client:
            await client.put(f"{LIST}/shelf-{user}-1/read")

    exported = [row async for row in place.app.users.export("ada")]
    assert [row["article_id"] for row in exported if row["type"] == "mark"] == ["shelf-ada-1"]
    await place.app.users.forget("ada", by="eve")
    await place.app.users.forget("ada", by="eve")

    assert await place.app.read(tables.count) == 1
    left = await place.app.read(lambda tx: tables.marks_of(tx, "bob", ["shelf-bob-1"]))
    assert list(left) == ["shelf-bob-1"]


async def test_its_routes_are_in_the_description_with_what_may_go_wrong(place: Place) -> None:
    paths = place.web.openapi()["paths"]

    assert set(paths[f"{LIST}/{{article_id}}/read"]["put"]["responses"]) >= {"200", "401", "404"}


def test_it_is_written_on_what_is_public_alone() -> None:
    for file in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            else:
                continue
            for name in names:
                room = ".".join(name.split(".")[:2])
                assert not name.startswith("headgate") or room in PUBLIC, f"{file.name}: {name}"
                assert not name.startswith("examples"), f"{file.name} says its own name"
