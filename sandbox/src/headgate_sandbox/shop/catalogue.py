"""This module holds the products in pages, and their offers of today; it knows nothing of HTTP."""

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.forms import digits
from headgate_sandbox.shop.product import FIRST_ID, Offer, Product, draw_offer, draw_product

PRODUCTS_MAX = 1_000_000
PAGE_SIZE_MAX = 1_000


class Listed(msgspec.Struct, frozen=True):
    """A product with its offer of today."""

    product: Product
    offer: Offer


class Catalogue:
    """The products of the shop, drawn when asked for, and the offers set at run time."""

    def __init__(self, clock: Clock, *, seed: int, products: int, page_size: int) -> None:
        """Offer that many products, `page_size` on a page; a day begins at midnight UTC."""
        if not 0 <= products <= PRODUCTS_MAX:
            raise InvalidInput("products", f"must be between 0 and {PRODUCTS_MAX}")
        if not 1 <= page_size <= PAGE_SIZE_MAX:
            raise InvalidInput("page_size", f"must be between 1 and {PAGE_SIZE_MAX}")
        self.size = products
        #: A shop without products still has its first page.
        self.pages = max(1, -(-products // page_size))
        self._clock = clock
        self._seed = seed
        self._page_size = page_size
        self._set_offers: dict[str, Offer] = {}

    @property
    def offers_set(self) -> int:
        """How many products have an offer that was set at run time."""
        return len(self._set_offers)

    def page(self, number: int) -> list[Listed]:
        """The products on that page, which must exist; the first page is 1."""
        start = (number - 1) * self._page_size
        return self.listed(start, start + self._page_size)

    def listed(self, start: int, stop: int) -> list[Listed]:
        """The products from one index up to another, as far as there are any."""
        return [self._listed(index) for index in range(start, min(stop, self.size))]

    def find(self, product_id: str) -> Listed | None:
        """The product of that id, or None."""
        number = digits(product_id)
        # The second part refuses leading zeros: a product has one address.
        if number is None or str(number) != product_id:
            return None
        index = number - FIRST_ID
        return self._listed(index) if 0 <= index < self.size else None

    def set_offer(self, product_id: str, offer: Offer) -> Listed:
        """Set the offer of a product, from now on and for every day."""
        found = self.find(product_id)
        if found is None:
            raise InvalidInput("product", f"there is no product {product_id}")
        self._set_offers[product_id] = offer
        return Listed(found.product, offer)

    def _listed(self, index: int) -> Listed:
        product = draw_product(self._seed, index)
        offer = self._set_offers.get(product.id)
        if offer is None:
            offer = draw_offer(self._seed, product, self._clock.now().date())
        return Listed(product, offer)
