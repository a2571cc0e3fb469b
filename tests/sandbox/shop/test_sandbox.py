"""The sandbox as a whole: visitors and their limit, faults, control and reset."""

import pytest

from headgate_sandbox.kit.faults import FaultKind
from headgate_sandbox.shop.sandbox import NewOffer
from tests.sandbox.shop.worlds import HTML, Scraped, make, scrape, scraped, visitor


async def test_a_visitor_has_so_many_requests_a_minute() -> None:
    shop, client, clock = make(limit=2)
    clock.advance(15)

    statuses = [(await client.get("/products")).status for _ in range(2)]
    refused = await client.get("/products")
    clock.advance(int(refused.headers["retry-after"]) - 1)
    early = await client.get("/products")
    used = shop.meter.read("local").used
    clock.advance(int(early.headers["retry-after"]))
    later = await client.get("/products")

    assert statuses == [200, 200]
    assert (refused.status, refused.headers["content-type"]) == (429, HTML)
    assert refused.headers["retry-after"] == "45"
    assert b"<h1>Too Many Requests</h1>" in refused.body
    assert (early.status, later.status) == (429, 200)
    assert "retry-after" not in later.headers
    # The two that were refused do not count.
    assert (used, shop.meter.overshoot()) == ({"minute": 2}, 2)


async def test_the_limit_is_120_unless_told_and_every_path_counts() -> None:
    _, client, _ = make(products=1)
    paths = ["/", "/lamps", *["/robots.txt"] * 118, "/"]

    statuses = [(await client.get(path)).status for path in paths]

    assert statuses == [200, 404, *[200] * 118, 429]


async def test_visitors_are_counted_apart_by_their_address_alone() -> None:
    shop, _, _ = make(limit=1)
    first, second = visitor(shop, "192.0.2.1"), visitor(shop, "192.0.2.2")
    disguise = {"x-forwarded-for": "192.0.2.9", "user-agent": "somebody else", "cookie": "id=9"}

    statuses = [
        (await first.get("/products")).status,
        (await second.get("/products")).status,
        (await first.send("GET", "/products", headers=disguise)).status,
    ]

    assert statuses == [200, 200, 429]
    assert [seen.user for seen in shop.requests.entries] == ["192.0.2.1", "192.0.2.2", "192.0.2.1"]
    assert shop.meter.overshoot("192.0.2.1") == 1


async def test_a_fault_refuses_as_the_limit_does_or_takes_the_header_away() -> None:
    shop, client, _ = make()
    shop.faults.next(FaultKind.RATE_LIMITED)

    refused, fine = await client.get("/products"), await client.get("/products")
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert (refused.headers["content-type"], fine.status) == (HTML, 200)

    shop, client, _ = make(limit=0)
    shop.faults.next(FaultKind.NO_HEADERS)
    answer = await client.get("/products")
    assert (answer.status, "retry-after" in answer.headers) == (429, False)


async def test_a_page_that_ends_in_the_middle_has_some_of_its_products() -> None:
    shop, client, _ = make()
    shop.faults.next(FaultKind.TRUNCATED)

    cut, whole = await client.get("/products"), await client.get("/products")

    assert whole.body.startswith(cut.body)
    assert 0 < cut.body.count(b"</article>") < 20
    # Other methods are refused with a page.
    answer = await client.post("/products")
    assert (answer.status, answer.headers["content-type"]) == (405, HTML)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (FaultKind.FORBIDDEN, 403),
        (FaultKind.SERVER_ERROR, 500),
        (FaultKind.OUTAGE, 503),
        (FaultKind.ERROR_IN_200, 200),
        (FaultKind.MALFORMED, 200),
    ],
)
async def test_a_fault_is_a_page_without_products(kind: FaultKind, status: int) -> None:
    shop, client, _ = make()
    shop.faults.next(kind)

    answer = await client.get("/products")

    assert (answer.status, answer.headers["content-type"]) == (status, HTML)
    assert b"product-id" not in answer.body
    assert len(scraped((await client.get("/products")).body)) == 20


async def test_an_offer_can_be_set_over_http_and_stays() -> None:
    shop, client, clock = make(products=3)
    before = await scrape(client)

    offer = {"product": "100002", "price_cents": 123_450, "old_price_cents": 200_000}
    answer = await client.post("/_sandbox/offers", json=offer)
    clock.advance(40 * 86_400)
    after = await scrape(client)

    assert answer.status == 201
    assert after[1] == Scraped("100002", before[1].name, 123_450, 200_000)
    stats = (await client.get("/_sandbox/stats")).json()
    assert stats["data"] == {"products": 3, "pages": 1, "offers_set": 1}
    # And a product can be sold out.
    shop.set_offer(NewOffer(product="100001"))
    page = await client.get("/products/100001")
    assert b'class="product sold-out"' in page.body
    assert scraped(page.body)[0].price_cents is None


async def test_the_offers_of_today_are_told_over_http() -> None:
    _, client, clock = make()
    clock.advance(86_400)

    told = (await client.get("/_sandbox/offers")).json()["offers"]

    assert told == [
        {
            "product": each.id,
            "name": each.name,
            "price_cents": each.price_cents,
            "old_price_cents": each.old_price_cents,
        }
        for each in await scrape(client)
    ]
