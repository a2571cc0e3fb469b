"""This module defines products and their offers, and draws them from the seed.

A product stays the same for ever; its offer is drawn anew every day, week or month.
"""

from datetime import date

import msgspec

from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.seeded import draw

FIRST_ID = 100_001
PRICE_CENTS_MAX = 100_000_000
#: How many days an offer lasts; each product has one of these.
PERIODS_DAYS = (1, 7, 30)
#: Of a hundred offers, so many are sold out, and so many are on sale.
SOLD_OUT_PERCENT = 10
SALE_PERCENT = 20

_MAKERS = ("Åkerlund", "Brook & Daughters", "Fen", "Łuk", "Müller", "O'Hara", "Vale")
#: Most of these need care in HTML. The last one spells entities, so decoding it twice is wrong.
_THINGS = (
    "Desk Lamp",
    '27" Monitor',
    "Salt & Pepper Mill",
    "Wool Blanket",
    "Cable < 2 m",
    "Crème Brûlée Torch",
    "Garden Chair",
    "<Untitled> Poster",
    "Teapot 茶",
    'Book "From &lt; to &amp;"',
)
_PRAISE = ("Made to last", "Light & strong", "As good as new for years", "Für drinnen & draußen")
_CENTS = (0, 50, 90, 95, 99)
_DISCOUNTS_PERCENT = (10, 20, 25, 30, 50)


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that the shop lists."""

    id: str
    name: str
    description: str
    #: Its offers stay close to this price.
    usual_cents: int
    #: How many days an offer lasts ...
    period_days: int
    #: ... and by how many days its periods are shifted, so that they do not all end at once.
    shift_days: int


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a product costs for a while."""

    #: None means that it is sold out.
    price_cents: int | None = None
    #: The price before the sale; None if it is not on sale.
    old_price_cents: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible prices; the error names the field."""
        price, old_price = self.price_cents, self.old_price_cents
        if price is not None and not 1 <= price <= PRICE_CENTS_MAX:
            raise InvalidInput("price_cents", f"must be between 1 and {PRICE_CENTS_MAX}")
        if old_price is None:
            return
        if price is None:
            raise InvalidInput("old_price_cents", "needs price_cents too: sold out is not on sale")
        if not price < old_price <= PRICE_CENTS_MAX:
            raise InvalidInput(
                "old_price_cents", f"must be above price_cents and at most {PRICE_CENTS_MAX}"
            )


def draw_product(seed: int, index: int) -> Product:
    """Draw the product with that index."""
    product_id = str(FIRST_ID + index)
    rng = draw(seed, "product", product_id)
    # In turn, not by chance: even a shop of ten products has every kind of name.
    thing = _THINGS[index % len(_THINGS)]
    period_days = rng.choice(PERIODS_DAYS)
    model = f"{rng.choice('ABKRX')}-{rng.randint(100, 999)}"
    return Product(
        id=product_id,
        name=f"{rng.choice(_MAKERS)} {thing} {model}",
        description=f"{rng.choice(_PRAISE)}. Weighs < {rng.randint(1, 20)} kg.",
        # The power makes cheap things common, and prices beyond a thousand euros possible.
        usual_cents=int(4 * 750 ** rng.random()) * 100 + rng.choice(_CENTS),
        period_days=period_days,
        shift_days=rng.randrange(period_days),
    )


def draw_offer(seed: int, product: Product, day: date) -> Offer:
    """Draw the offer of a product on that day; it is the same on all days of its period."""
    period = (day.toordinal() + product.shift_days) // product.period_days
    rng = draw(seed, "offer", product.id, period)
    percent = rng.random() * 100
    if percent < SOLD_OUT_PERCENT:
        return Offer()
    full_cents = round(product.usual_cents * rng.uniform(0.9, 1.1))
    if percent < SOLD_OUT_PERCENT + SALE_PERCENT:
        price_cents = full_cents * (100 - rng.choice(_DISCOUNTS_PERCENT)) // 100
        return Offer(price_cents=price_cents, old_price_cents=full_cents)
    return Offer(price_cents=full_cents)
