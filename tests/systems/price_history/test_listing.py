"""Reading a listing page, and what cannot be read."""

import pytest

from headgate import Malformed
from headgate.systems.price_history.listing import ListedPrice, read_listing

URL = "https://shop.test/products?page=1"


def article(price: str, *, product: str = "p-1", name: str = "Lamp") -> str:
    return (
        f'<article class="product" data-product-id="{product}">'
        f'<h2 class="name"><a href="/products/{product}">{name}</a></h2>{price}</article>'
    )


def price_of(text: str) -> str:
    return f'<s class="old-price">€ 99.00</s><span class="price" data-currency="EUR">{text}</span>'


def page(*articles: str, more: bool = False) -> bytes:
    after = '<a rel="next" href="/products?page=2">Next</a>' if more else ""
    return f"<!doctype html><title>Shop</title>{''.join(articles)}{after}".encode()


def test_products_are_read_with_the_price_that_holds() -> None:
    listing = read_listing(
        page(article(price_of("€ 1,234.50"), name="Salt &amp; &quot;Pepper&quot; &lt;3")), url=URL
    )
    assert listing.prices == [
        ListedPrice(product_id="p-1", name='Salt & "Pepper" <3', amount=1234.5, currency="EUR")
    ]
    assert (listing.sold_out, listing.has_next) == (0, False)


def test_what_is_sold_out_has_no_price() -> None:
    listing = read_listing(
        page(article("<p>Sold out</p>"), article(price_of("€ 1.00"), product="p-2"), more=True),
        url=URL,
    )
    assert [each.product_id for each in listing.prices] == ["p-2"]
    assert (listing.sold_out, listing.has_next) == (1, True)


@pytest.mark.parametrize(
    ("html", "why"),
    [
        (page(), "lists no products"),
        (page(article(price_of("call us"))), "price that is not a number: 'call us'"),
        (page(article(price_of("€ 1.00"), product="")), "without an id or a name"),
        (page('<article class="product" data-product-id="p"></article>'), "without an id or"),
    ],
)
def test_a_page_that_has_changed_is_told_and_not_guessed(html: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read_listing(html, url=URL)
