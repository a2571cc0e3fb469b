"""A scraper on real HTTP reads the whole shop: robots.txt, the home page, then page after page."""

from datetime import UTC, datetime
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import ProxyHandler, build_opener
from urllib.robotparser import RobotFileParser

import pytest
from selectolax.lexbor import LexborHTMLParser

from headgate.base.clock import ManualClock
from headgate_sandbox.serving import serving
from headgate_sandbox.shop.sandbox import Shop
from tests.sandbox.shop.worlds import attribute, known, scraped

SOON_S = 30
PAGES_MAX = 20
#: Whatever proxy the environment names: the shop is on this machine.
DIRECT = build_opener(ProxyHandler({}))


def fetch(address: str) -> bytes:
    with DIRECT.open(address, timeout=SOON_S) as response:
        body: bytes = response.read()
        return body


def follow(address: str, selector: str) -> str | None:
    """The address that the first such link on a page leads to."""
    link = LexborHTMLParser(fetch(address)).css_first(selector)
    return None if link is None else urljoin(address, attribute(link, "href"))


def make(**options: int) -> Shop:
    return Shop(ManualClock(datetime(2026, 1, 5, tzinfo=UTC)), **options)


def test_a_scraper_that_obeys_the_rules_reads_all_products() -> None:
    shop = make()
    with serving(shop) as base_url:
        rules = RobotFileParser()
        rules.parse(fetch(f"{base_url}/robots.txt").decode().splitlines())
        addresses: list[str] = []
        address = follow(f"{base_url}/", "main a")
        while address is not None and len(addresses) < PAGES_MAX:
            assert rules.can_fetch("scraper", address)
            addresses.append(address)
            address = follow(address, 'a[rel="next"]')
        found = [each for page in addresses for each in scraped(fetch(page))]

    assert addresses == [f"{base_url}/products?page={number}" for number in range(1, 6)]
    assert found == [known(each) for each in shop.catalogue.listed(0, 90)]
    assert {seen.user for seen in shop.requests.entries} == {"127.0.0.1"}
    assert shop.meter.overshoot() == 0


def test_a_scraper_in_a_hurry_is_told_when_to_come_back() -> None:
    with serving(make(limit=1)) as base_url:
        fetch(f"{base_url}/products")
        with pytest.raises(HTTPError) as refused:
            fetch(f"{base_url}/products?page=2")

    with refused.value as answer:
        assert (answer.code, answer.headers["retry-after"]) == (429, "60")
        assert answer.headers.get_content_type() == "text/html"
