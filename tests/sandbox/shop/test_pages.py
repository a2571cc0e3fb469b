"""The pages, as a real HTML parser reads them."""

from datetime import datetime
from html.parser import HTMLParser
from urllib.robotparser import RobotFileParser

import pytest
from selectolax.lexbor import LexborHTMLParser

from headgate_sandbox.shop.pages import price_text
from tests.sandbox.shop.worlds import (
    HTML,
    START,
    attribute,
    known,
    make,
    next_page,
    scrape,
    scraped,
)

VOID = {"meta"}


class Nesting(HTMLParser):
    """Notes every tag that is closed out of turn, and those that stay open."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(body.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


async def test_a_scraper_finds_every_product_once_with_its_name_and_prices() -> None:
    shop, client, _ = make()

    found = await scrape(client)

    assert len(found) == 90
    assert found == [known(each) for each in shop.catalogue.listed(0, 90)]
    assert len({each.id for each in found}) == 90


async def test_pages_have_twenty_products_and_the_last_has_the_rest() -> None:
    _, client, _ = make()

    bodies = [(await client.get("/products", page=number)).body for number in range(1, 6)]
    bare = await client.get("/products")

    assert [len(scraped(body)) for body in bodies] == [20, 20, 20, 20, 10]
    assert [next_page(body) for body in bodies] == ["2", "3", "4", "5", None]
    # Without a number the first is shown.
    assert (bare.body, bare.headers["content-type"]) == (bodies[0], HTML)


@pytest.mark.parametrize(
    ("products", "page_size", "sizes"),
    [(6, 3, [3, 3]), (7, 3, [3, 3, 1]), (2, 5, [2]), (0, 5, [0])],
)
async def test_the_shop_and_its_pages_have_the_sizes_asked_for(
    products: int, page_size: int, sizes: list[int]
) -> None:
    _, client, _ = make(products=products, page_size=page_size)

    answers = [await client.get("/products", page=n + 1) for n in range(len(sizes) + 1)]

    assert [answer.status for answer in answers] == [200] * len(sizes) + [404]
    assert [len(scraped(answer.body)) for answer in answers[:-1]] == sizes
    assert next_page(answers[-2].body) is None


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_names_hold_what_a_parser_must_handle(seed: int) -> None:
    _, client, _ = make(seed=seed, products=10)

    body = (await client.get("/products")).body.decode()
    names = [each.name for each in scraped(body.encode())]

    assert "Untitled&gt; Poster" in body
    assert any("<Untitled>" in name for name in names)
    # Part of a name, and not an entity that was left over.
    assert any('"From &lt; to &amp;"' in name for name in names)
    assert any(" & " in name for name in names)
    assert any('27" ' in name for name in names)
    assert any("Crème" in name for name in names)
    assert any("茶" in name for name in names)


async def test_some_products_are_on_sale_and_some_are_sold_out() -> None:
    _, client, _ = make()

    found = await scrape(client)
    body = LexborHTMLParser((await client.get("/products", page=2)).body)
    sold_out = body.css("article.sold-out")

    on_sale = [each for each in found if each.old_price_cents is not None]
    assert 5 < len(on_sale) < 40
    assert all((each.price_cents or 0) < (each.old_price_cents or 0) for each in on_sale)
    assert 2 < sum(each.price_cents is None for each in found) < 25
    assert sold_out
    assert all(each.css_first(".price") is None for each in sold_out)
    assert body.css_first("article.product:not(.sold-out) .price") is not None


@pytest.mark.parametrize(
    ("cents", "text"),
    [(5, "€ 0.05"), (99_900, "€ 999.00"), (123_450, "€ 1,234.50"), (100_000_000, "€ 1,000,000.00")],
)
def test_a_price_has_two_decimals_and_commas_between_thousands(cents: int, text: str) -> None:
    assert price_text(cents) == text


async def test_a_product_page_tells_the_same_and_a_description() -> None:
    _, client, _ = make()

    for listed in scraped((await client.get("/products", page=2)).body):
        answer = await client.get(f"/products/{listed.id}")
        page = LexborHTMLParser(answer.body)
        description = page.css_first("article .description")

        assert answer.status == 200
        assert scraped(answer.body) == [listed]
        assert description is not None
        assert " kg." in description.text()
        assert "Weighs < " in description.text()


async def test_the_home_page_links_to_the_listing_and_that_to_each_product() -> None:
    _, client, _ = make(products=3)

    async def links(path: str, selector: str) -> list[str]:
        page = LexborHTMLParser((await client.get(path)).body)
        return [attribute(node, "href") for node in page.css(selector)]

    assert (await links("/", "main a"))[0] == "/products?page=1"
    products = [f"/products/{number}" for number in (100001, 100002, 100003)]
    assert await links("/products", "article .name a") == products


async def test_a_listing_tells_when_it_was_made_by_the_clock_of_the_shop() -> None:
    _, client, clock = make()

    async def generated() -> datetime:
        page = LexborHTMLParser((await client.get("/products")).body)
        meta = page.css_first('meta[name="generated"]')
        assert meta is not None
        return datetime.fromisoformat(attribute(meta, "content"))

    first = await generated()
    clock.advance(90)

    assert first == START
    assert (await generated() - first).total_seconds() == 90


async def test_robots_may_read_products_and_not_the_basket_where_they_are_seen() -> None:
    shop, client, _ = make()
    answer = await client.get("/robots.txt")
    rules = RobotFileParser()
    rules.parse(answer.body.decode().splitlines())

    assert answer.headers["content-type"].startswith("text/plain")
    assert rules.can_fetch("anyone", "/products?page=2")
    assert rules.can_fetch("anyone", "/products/100001")
    assert not rules.can_fetch("anyone", "/basket")
    assert (await client.get("/basket")).status == 200
    assert shop.requests.count(path="/basket") == 1


PATHS = ["/products/100000", "/products/100091", "/products/0100001", "/products/lamp", "/lamps"]
PAGES = ["0", "6", "-1", "two", "", "1.5", "٣", "9" * 5_000]


@pytest.mark.parametrize(
    ("path", "query"),
    [*((path, {}) for path in PATHS), *(("/products", {"page": page}) for page in PAGES)],
    ids=lambda value: str(value)[:40],
)
async def test_what_does_not_exist_is_a_page_that_says_so(path: str, query: dict[str, str]) -> None:
    _, client, _ = make()

    answer = await client.get(path, **query)
    heading = LexborHTMLParser(answer.body).css_first("h1")

    assert (answer.status, answer.headers["content-type"]) == (404, HTML)
    assert heading is not None
    assert heading.text() == "Not Found"


@pytest.mark.parametrize(
    "path", ["/", "/products", "/products/100001", "/products/100010", "/basket", "/lamps"]
)
async def test_every_tag_is_closed_in_turn(path: str) -> None:
    _, client, _ = make()

    nesting = Nesting((await client.get(path)).body)

    assert (nesting.open, nesting.wrong) == ([], [])
