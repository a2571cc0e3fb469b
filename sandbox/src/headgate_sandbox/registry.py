"""This module builds a sandbox by its name."""

from collections.abc import Callable

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate_sandbox.foursquare.sandbox import Foursquare
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.kit.outbound import loopback
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.price_history.sandbox import PriceHistory
from headgate_sandbox.roam.sandbox import Roam
from headgate_sandbox.shop.sandbox import Shop
from headgate_sandbox.strava.sandbox import Strava


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every sandbox; each one has its own meaning of `users` and `records`."""

    seed: int = 1
    #: How many athletes, users or graphs there are.
    users: int = 1
    #: How many activities, days, check-ins or pages each of them has, or products a shop has.
    records: int = 700


def _strava(clock: Clock, options: Options) -> Provider:
    return Strava(
        clock,
        seed=options.seed,
        athletes=options.users,
        activities=options.records,
        outbound=loopback,
    )


def _google_health(clock: Clock, options: Options) -> Provider:
    return GoogleHealth(clock, seed=options.seed, users=options.users, days=options.records)


def _foursquare(clock: Clock, options: Options) -> Provider:
    return Foursquare(clock, seed=options.seed, users=options.users, checkins=options.records)


def _roam(clock: Clock, options: Options) -> Provider:
    return Roam(clock, seed=options.seed, graphs=options.users, pages=options.records)


def _price_history(clock: Clock, options: Options) -> Provider:
    # This sandbox only stores what it is sent, so `users` and `records` do not apply.
    return PriceHistory(clock, seed=options.seed)


def _shop(clock: Clock, options: Options) -> Provider:
    # A shop has visitors and no accounts, so `users` does not apply.
    return Shop(clock, seed=options.seed, products=options.records)


#: A new sandbox needs a line here.
SANDBOXES: dict[str, Callable[[Clock, Options], Provider]] = {
    "foursquare": _foursquare,
    "google-health": _google_health,
    "price-history": _price_history,
    "roam": _roam,
    "shop": _shop,
    "strava": _strava,
}


def build(name: str, clock: Clock, options: Options | None = None) -> Provider:
    """Build the sandbox of that name; raises InvalidInput if it is unknown."""
    if name not in SANDBOXES:
        known = ", ".join(sorted(SANDBOXES))
        raise InvalidInput("name", f"no sandbox is called {name!r}; there are {known}")
    return SANDBOXES[name](clock, options or Options())
