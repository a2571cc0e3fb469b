"""This module builds the shop's HTML pages; every text in them is escaped."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from http.client import responses

from starlette.responses import HTMLResponse

from headgate_sandbox.shop.catalogue import Listed

SHOP = "Sandbox & Sons"
CURRENCY = "EUR"
FIRST_PAGE = "/products?page=1"
BASKET = "/basket"

ROBOTS = f"User-agent: *\nAllow: /products\nDisallow: {BASKET}\n"

_EXPLANATIONS = {
    403: "You may not see this page.",
    404: "We looked everywhere, but there is no such page.",
    429: "You are reading faster than we can serve. Please wait a moment.",
}


def home(products: int) -> HTMLResponse:
    """The home page, with a link to the first page of the listing."""
    return _page(
        "Welcome",
        f"<h1>Welcome to {escape(SHOP)}</h1>\n"
        f'<p><a class="all-products" href="{FIRST_PAGE}">See all {products:,} products</a></p>',
    )


def listing(listed: Sequence[Listed], *, number: int, pages: int, now: datetime) -> HTMLResponse:
    """One page of the listing, with links to the pages before and after it."""
    articles = "\n".join(_article(each, _linked_name(each)) for each in listed)
    return _page(
        f"Products, page {number} of {pages}",
        f"<h1>Products</h1>\n{articles}\n<nav>{_neighbours(number, pages)}</nav>",
        generated=now,
    )


def product(listed: Listed, *, now: datetime) -> HTMLResponse:
    """The page of one product."""
    name = escape(listed.product.name)
    description = f'<p class="description">{escape(listed.product.description)}</p>\n'
    article = _article(listed, f'<h1 class="name">{name}</h1>', description)
    return _page(listed.product.name, article, generated=now)


def basket() -> HTMLResponse:
    """The basket, which is always empty: nothing can be bought here."""
    return _page("Basket", "<h1>Basket</h1>\n<p>Your basket is empty.</p>")


def error(status: int) -> HTMLResponse:
    """An error as a page."""
    name = responses.get(status, "Error")
    explanation = _EXPLANATIONS.get(status, "Something went wrong. Please try again later.")
    return _page(
        f"{status} {name}", f"<h1>{escape(name)}</h1>\n<p>{explanation}</p>", status=status
    )


def price_text(cents: int) -> str:
    """A price as the pages show it, such as `€ 1,234.50`."""
    return f"€ {cents // 100:,}.{cents % 100:02}"


def _page(
    title: str, main: str, *, generated: datetime | None = None, status: int = 200
) -> HTMLResponse:
    meta = ""
    if generated is not None:
        moment = generated.strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = f'<meta name="generated" content="{moment}">\n'
    return HTMLResponse(
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{meta}<title>{escape(title)} | {escape(SHOP)}</title>\n</head>\n<body>\n"
        f'<header><a href="/">{escape(SHOP)}</a> <a href="{FIRST_PAGE}">Products</a> '
        f'<a href="{BASKET}" rel="nofollow">Basket</a></header>\n'
        f"<main>\n{main}\n</main>\n</body>\n</html>\n",
        status,
    )


def _article(listed: Listed, name: str, more: str = "") -> str:
    sold_out = " sold-out" if listed.offer.price_cents is None else ""
    return (
        f'<article class="product{sold_out}" data-product-id="{escape(listed.product.id)}">\n'
        f"{name}\n{_offer(listed)}\n{more}</article>"
    )


def _linked_name(listed: Listed) -> str:
    address = f"/products/{escape(listed.product.id)}"
    return f'<h2 class="name"><a href="{address}">{escape(listed.product.name)}</a></h2>'


def _offer(listed: Listed) -> str:
    offer = listed.offer
    if offer.price_cents is None:
        return '<p class="offer"><span class="stock">Sold out</span></p>'
    price = _price("span", "price", offer.price_cents)
    if offer.old_price_cents is None:
        return f'<p class="offer">{price}</p>'
    return f'<p class="offer">{_price("s", "old-price", offer.old_price_cents)} {price}</p>'


def _price(tag: str, kind: str, cents: int) -> str:
    return f'<{tag} class="{kind}" data-currency="{CURRENCY}">{price_text(cents)}</{tag}>'


def _neighbours(number: int, pages: int) -> str:
    links = [f"Page {number} of {pages}"]
    if number > 1:
        links.insert(0, f'<a rel="prev" href="/products?page={number - 1}">Previous page</a>')
    if number < pages:
        links.append(f'<a rel="next" href="/products?page={number + 1}">Next page</a>')
    return " ".join(links)
