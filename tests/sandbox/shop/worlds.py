"""A shop on a clock that stands still, its visitors, and a scraper that reads its pages."""

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.base.clock import ManualClock
from headgate_sandbox.shop.catalogue import Listed
from headgate_sandbox.shop.sandbox import Shop
from tests.sandbox.clients import Client

START = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)
HTML = "text/html; charset=utf-8"
PAGES_MAX = 1_000
_PRICE = re.compile(r"€ (\d{1,3}(?:,\d{3})*)\.(\d\d)")


class Scraped(NamedTuple):
    """What a page says of a product."""

    id: str
    name: str
    price_cents: int | None
    old_price_cents: int | None


def make(**options: Any) -> tuple[Shop, Client, ManualClock]:
    clock = ManualClock(START)
    shop = Shop(clock, **options)
    return shop, Client(shop), clock


def visitor(app: ASGIApp, address: str) -> Client:
    """A client on a machine of that address."""

    async def arrive(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "client": (address, 50_000)}, receive, send)

    return Client(arrive)


def scraped(body: bytes) -> list[Scraped]:
    """The products on a page."""
    return [_scraped(article) for article in LexborHTMLParser(body).css("article.product")]


def next_page(body: bytes) -> str | None:
    """The number of the page after this one."""
    link = LexborHTMLParser(body).css_first('a[rel="next"]')
    return None if link is None else attribute(link, "href").removeprefix("/products?page=")


async def scrape(client: Client) -> list[Scraped]:
    """All products of a shop, page after page."""
    found: list[Scraped] = []
    number: str | None = "1"
    for _ in range(PAGES_MAX):
        answer = await client.get("/products", page=number)
        assert answer.status == 200, answer.body
        found += scraped(answer.body)
        number = next_page(answer.body)
        if number is None:
            return found
    raise AssertionError("the pages have no end")


def known(listed: Listed) -> Scraped:
    """What a scraper should find for this product."""
    offer = listed.offer
    return Scraped(listed.product.id, listed.product.name, offer.price_cents, offer.old_price_cents)


def attribute(node: LexborNode, name: str) -> str:
    value = node.attributes[name]
    assert value is not None, name
    return value


def _scraped(article: LexborNode) -> Scraped:
    name = article.css_first(".name")
    assert name is not None
    return Scraped(
        attribute(article, "data-product-id"),
        name.text(),
        _cents(article, "span.price"),
        _cents(article, "s.old-price"),
    )


def _cents(article: LexborNode, selector: str) -> int | None:
    node = article.css_first(selector)
    if node is None:
        return None
    assert attribute(node, "data-currency") == "EUR"
    matched = _PRICE.fullmatch(node.text())
    assert matched, node.text()
    return int(matched[1].replace(",", "")) * 100 + int(matched[2])
