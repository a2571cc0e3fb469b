"""What products cost: by the seed and the day, and by nothing else."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import InvalidInput
from headgate_sandbox.shop.product import PERIODS_DAYS, Offer, draw_offer, draw_product
from tests.sandbox.shop.worlds import make, scrape

HOUR_S = 3_600
DAY = date(2026, 1, 5)


async def test_prices_stay_until_midnight_and_then_some_of_them_change() -> None:
    _, client, clock = make()
    _, small, _ = make(products=10)

    noon = await scrape(client)
    # A larger shop has the products of a smaller one.
    assert noon[:10] == await scrape(small)
    clock.advance(11 * HOUR_S + 58 * 60)
    night = await scrape(client)
    clock.advance(60)
    tomorrow = await scrape(client)

    assert night == noon
    assert [each.id for each in tomorrow] == [each.id for each in noon]
    assert [each.name for each in tomorrow] == [each.name for each in noon]
    changed = sum(before != after for before, after in zip(noon, tomorrow, strict=True))
    assert 10 < changed < 60


@pytest.mark.parametrize("period_days", PERIODS_DAYS)
def test_an_offer_lasts_as_long_as_its_product_says(period_days: int) -> None:
    product = next(
        each
        for each in (draw_product(1, index) for index in range(100))
        if each.period_days == period_days
    )
    days = [DAY + timedelta(days=number) for number in range(10 * period_days)]

    offers = [draw_offer(1, product, day) for day in days]
    changes = [
        day
        for day, before, after in zip(days[1:], offers, offers[1:], strict=False)
        if before != after
    ]

    assert changes
    assert {(day.toordinal() + product.shift_days) % period_days for day in changes} == {0}


@given(seed=st.integers(0, 1_000), index=st.integers(0, 1_000_000), day=st.dates(date(1971, 1, 1)))
def test_every_offer_is_sold_out_or_close_to_the_usual_price(
    seed: int, index: int, day: date
) -> None:
    product = draw_product(seed, index)

    offer = draw_offer(seed, product, day)

    full = offer.old_price_cents or offer.price_cents
    assert full is None or 0.89 < full / product.usual_cents < 1.11
    assert full is None or full / 2 - 1 <= (offer.price_cents or 0) <= full
    assert offer == draw_offer(seed, product, day)


@pytest.mark.parametrize(
    ("price_cents", "old_price_cents", "field"),
    [
        (0, None, "price_cents"),
        (-1, None, "price_cents"),
        (100_000_001, None, "price_cents"),
        (None, 500, "old_price_cents"),
        (500, 500, "old_price_cents"),
        (500, 400, "old_price_cents"),
        (500, 100_000_001, "old_price_cents"),
    ],
)
def test_an_impossible_offer_is_refused_by_its_field(
    price_cents: int | None, old_price_cents: int | None, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Offer(price_cents=price_cents, old_price_cents=old_price_cents)

    assert refused.value.field == field
