"""`Shop` is the sandbox: it joins the catalogue and the pages, and offers actions for tests.

The shop has no accounts and needs no key. A visitor is known by the address of their machine alone.
"""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.answers import Answered, json_answer
from headgate_sandbox.kit.control import read_json
from headgate_sandbox.kit.forms import digits
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.kit.routing import get, post
from headgate_sandbox.kit.windows import Window
from headgate_sandbox.shop import pages
from headgate_sandbox.shop.catalogue import Catalogue, Listed
from headgate_sandbox.shop.product import Offer

PRODUCTS = 90
PAGE_SIZE = 20
#: A minute begins on the minute, and a refused request does not count.
MINUTE = "minute"
LIMIT = 120
LISTED_MAX = 10_000
#: The visitor of a request that came without a network, as in a test.
LOCAL = "local"


class NewOffer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to set the offer of a product; `Offer` says what the prices mean."""

    product: str
    price_cents: int | None = None
    old_price_cents: int | None = None


class Shop(Provider):
    """A web shop with a listing and a page for each product, for scrapers to read."""

    name = "shop"

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 1,
        products: int = PRODUCTS,
        page_size: int = PAGE_SIZE,
        limit: int = LIMIT,
    ) -> None:
        """List `products` in pages of `page_size`; a visitor has `limit` requests a minute."""
        window = Window(name=MINUTE, limit=limit, seconds=60, counts_refused=False)
        super().__init__(clock, seed=seed, windows=[window])
        self._products = products
        self._page_size = page_size
        self._begin()

    def _begin(self) -> None:
        #: What robots.txt says.
        self.robots = pages.ROBOTS
        self.catalogue = Catalogue(
            self.clock, seed=self.seed, products=self._products, page_size=self._page_size
        )

    # Actions for tests and demonstrations.

    def set_offer(self, new: NewOffer) -> Listed:
        """Set the offer of a product; it stays until the data is reset."""
        offer = Offer(price_cents=new.price_cents, old_price_cents=new.old_price_cents)
        return self.catalogue.set_offer(new.product, offer)

    # What the kit requires of a provider.

    def routes(self) -> Sequence[Route]:
        """The pages, and the rules for robots."""
        return [
            get("/", self._home),
            get("/robots.txt", self._robots),
            get("/products", self._listing),
            get("/products/{id}", self._product),
            get(pages.BASKET, self._basket),
        ]

    def admit(self, request: Request, pattern: str) -> Response | None:
        """Count the request of the visitor, whatever its path."""
        reading = self.meter.arrive(_visitor(request))
        return pages.error(429) if reading.beyond else None

    def refusal(self, status: int) -> Response:
        """The shop's error page for a status."""
        return pages.error(status)

    def user_of(self, request: Request) -> str | None:
        """The visitor."""
        return _visitor(request)

    def decorate(self, request: Request, response: Response) -> None:
        """Tell a visitor who is refused when the next minute begins."""
        if response.status_code == 429:
            seconds = self.meter.read(_visitor(request)).resets_in_s[MINUTE]
            response.headers["Retry-After"] = str(seconds)

    def reset_data(self) -> None:
        """Forget the offers that were set."""
        self._begin()

    def data_stats(self) -> JsonObject:
        """How many products and pages there are, and how many offers were set."""
        catalogue = self.catalogue
        return {
            "products": catalogue.size,
            "pages": catalogue.pages,
            "offers_set": catalogue.offers_set,
        }

    def control_routes(self) -> Sequence[Route]:
        """The control path that shows today's offers, and sets one."""
        return [
            get("/_sandbox/offers", self._control_offers),
            post("/_sandbox/offers", self._control_set),
        ]

    def greeting(self, base_url: str) -> list[str]:
        """The commands that work; no key is needed."""
        return [
            f"products       {self.catalogue.size:,} on {self.catalogue.pages:,} pages, "
            "no key needed",
            f"try            curl '{base_url}{pages.FIRST_PAGE}'",
            f"break it       curl {base_url}/_sandbox/faults -d "
            '\'{"kind": "rate_limited", "times": 3}\'',
            f"look           curl {base_url}/_sandbox/offers",
        ]

    # Endpoints and helpers.

    async def _home(self, request: Request) -> Response:
        return pages.home(self.catalogue.size)

    async def _robots(self, request: Request) -> Response:
        return PlainTextResponse(self.robots)

    async def _listing(self, request: Request) -> Response:
        """Show the page that `?page=` names, or the first one."""
        catalogue = self.catalogue
        number = digits(request.query_params.get("page", "1"))
        if number is None or not 1 <= number <= catalogue.pages:
            raise Answered(pages.error(404))
        return pages.listing(
            catalogue.page(number), number=number, pages=catalogue.pages, now=self.clock.now()
        )

    async def _product(self, request: Request) -> Response:
        listed = self.catalogue.find(request.path_params["id"])
        if listed is None:
            raise Answered(pages.error(404))
        return pages.product(listed, now=self.clock.now())

    async def _basket(self, request: Request) -> Response:
        return pages.basket()

    async def _control_offers(self, request: Request) -> Response:
        """Show what the first products cost today, to compare with what a scraper read."""
        offers = [_shown(each) for each in self.catalogue.listed(0, LISTED_MAX)]
        return json_answer({"now": self.clock.now(), "offers": offers})

    async def _control_set(self, request: Request) -> Response:
        """Set an offer: `{"product": "100001", "price_cents": 995}`; without a price, sold out."""
        return json_answer(_shown(self.set_offer(await read_json(request, NewOffer))), 201)


def _visitor(request: Request) -> str:
    # Not by any header: a scraper must not get a new count by calling itself something else.
    return LOCAL if request.client is None else request.client.host


def _shown(listed: Listed) -> JsonObject:
    return {
        "product": listed.product.id,
        "name": listed.product.name,
        "price_cents": listed.offer.price_cents,
        "old_price_cents": listed.offer.old_price_cents,
    }
