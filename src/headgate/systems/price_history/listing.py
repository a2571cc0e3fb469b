"""Reads the HTML of a shop's listing page: which products there are, and what each costs."""

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import msgspec

from headgate import Malformed

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_NOT_A_NUMBER = re.compile(r"[^0-9.]")


class ListedPrice(msgspec.Struct, frozen=True, kw_only=True):
    """One product with its price."""

    product_id: str
    name: str
    amount: float
    currency: str


class Listing(msgspec.Struct, frozen=True):
    """One page of the listing."""

    prices: list[ListedPrice]
    #: How many products have no price, because they are sold out.
    sold_out: int
    has_next: bool


def read_listing(html: bytes, *, url: str) -> Listing:
    """Return what a listing page says; raises Malformed if it is not one."""
    # Imported here: only a scraper needs it.
    from selectolax.lexbor import LexborHTMLParser

    page = LexborHTMLParser(html)
    articles = page.css("article.product")
    if not articles:
        raise Malformed(f"{url} lists no products: the shop may have changed its pages")
    prices, sold_out = [], 0
    for article in articles:
        found = _read_article(article, url)
        if found is None:
            sold_out += 1
        else:
            prices.append(found)
    return Listing(prices, sold_out, page.css_first("a[rel=next], link[rel=next]") is not None)


def _read_article(article: "LexborNode", url: str) -> ListedPrice | None:
    """Return a product's price; None if it is sold out."""
    product_id = article.attributes.get("data-product-id")
    name, price = article.css_first(".name"), article.css_first(".price")
    if not product_id or name is None:
        raise Malformed(f"{url} has a product without an id or a name")
    if price is None:
        return None
    return ListedPrice(
        product_id=product_id,
        name=name.text(strip=True),
        amount=float(_amount(price.text(), url)),
        currency=price.attributes.get("data-currency") or "",
    )


def _amount(text: str, url: str) -> Decimal:
    """Return the number in a price such as `€ 1,234.50`."""
    try:
        return Decimal(_NOT_A_NUMBER.sub("", text))
    except InvalidOperation:
        raise Malformed(f"{url} has a price that is not a number: {text[:40]!r}") from None
