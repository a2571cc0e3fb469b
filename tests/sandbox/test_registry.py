"""The sandboxes by name."""

from datetime import UTC, datetime

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import InvalidInput
from headgate_sandbox import registry
from headgate_sandbox.foursquare.sandbox import Foursquare
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.price_history.sandbox import PriceHistory
from headgate_sandbox.registry import Options, build
from headgate_sandbox.roam.sandbox import Roam
from headgate_sandbox.shop.sandbox import Shop
from headgate_sandbox.strava.sandbox import Strava

CLOCK = ManualClock(datetime(2026, 1, 5, tzinfo=UTC))


def test_a_sandbox_is_built_by_name_with_its_options() -> None:
    sandbox = build("strava", CLOCK, Options(seed=9, users=3, records=12))

    assert isinstance(sandbox, Strava)
    assert (sandbox.seed, len(sandbox.world.athlete_ids)) == (9, 3)
    assert sandbox.world.archive(sandbox.world.athlete_ids[2]).size == 12


def test_users_and_records_mean_what_each_provider_has() -> None:
    options = Options(seed=9, users=3, records=12)

    google = build("google-health", CLOCK, options)
    foursquare = build("foursquare", CLOCK, options)
    roam = build("roam", CLOCK, options)
    prices = build("price-history", CLOCK, options)
    shop = build("shop", CLOCK, options)

    assert isinstance(google, GoogleHealth)
    assert len(google.world.user_ids) == 3
    assert isinstance(foursquare, Foursquare)
    assert foursquare.world.timeline(str(foursquare.world.user_ids[2])).size == 12
    assert isinstance(roam, Roam)
    assert [graph.size for graph in roam.graphs.values()] == [12, 12, 12]
    assert isinstance(prices, PriceHistory)
    assert isinstance(shop, Shop)
    assert shop.catalogue.size == 12
    assert {sandbox.seed for sandbox in (google, foursquare, roam, prices, shop)} == {9}


def test_a_sandbox_bears_the_name_it_is_known_by_and_others_are_refused() -> None:
    for name in registry.SANDBOXES:
        assert build(name, CLOCK).name == name
    with pytest.raises(InvalidInput, match="strava"):
        build("myspace", CLOCK)
    for options in (Options(users=0), Options(records=-1)):
        with pytest.raises(InvalidInput):
            build("strava", CLOCK, options)
