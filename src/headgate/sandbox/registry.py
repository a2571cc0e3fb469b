"""This module builds a sandbox by its name, and imports it only then: its packages are an extra."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput

if TYPE_CHECKING:
    from headgate.sandbox.kit.provider import Provider


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every sandbox; each one has its own meaning of `users` and `records`."""

    seed: int = 1
    #: How many athletes, users or graphs there are.
    users: int = 1
    #: How many activities, days, check-ins or pages each of them has, or products a shop has.
    records: int = 700


def _strava(clock: Clock, options: Options) -> "Provider":
    from headgate.sandbox.kit.outbound import loopback
    from headgate.sandbox.strava.sandbox import Strava

    return Strava(
        clock,
        seed=options.seed,
        athletes=options.users,
        activities=options.records,
        outbound=loopback,
    )


def _google_health(clock: Clock, options: Options) -> "Provider":
    from headgate.sandbox.google_health.sandbox import GoogleHealth

    return GoogleHealth(clock, seed=options.seed, users=options.users, days=options.records)


def _foursquare(clock: Clock, options: Options) -> "Provider":
    from headgate.sandbox.foursquare.sandbox import Foursquare

    return Foursquare(clock, seed=options.seed, users=options.users, checkins=options.records)


def _roam(clock: Clock, options: Options) -> "Provider":
    from headgate.sandbox.roam.sandbox import Roam

    return Roam(clock, seed=options.seed, graphs=options.users, pages=options.records)


def _price_history(clock: Clock, options: Options) -> "Provider":
    from headgate.sandbox.price_history.sandbox import PriceHistory

    # This sandbox only stores what it is sent, so `users` and `records` do not apply.
    return PriceHistory(clock, seed=options.seed)


def _shop(clock: Clock, options: Options) -> "Provider":
    from headgate.sandbox.shop.sandbox import Shop

    # A shop has visitors and no accounts, so `users` does not apply.
    return Shop(clock, seed=options.seed, products=options.records)


#: A new sandbox needs a line here.
SANDBOXES: dict[str, Callable[[Clock, Options], "Provider"]] = {
    "foursquare": _foursquare,
    "google-health": _google_health,
    "price-history": _price_history,
    "roam": _roam,
    "shop": _shop,
    "strava": _strava,
}


def build(name: str, clock: Clock, options: Options | None = None) -> "Provider":
    """Build the sandbox of that name; raises InvalidInput if it is unknown or its extra missing."""
    if name not in SANDBOXES:
        raise InvalidInput("name", f"no sandbox is called {name!r}; there are {_known()}")
    try:
        return SANDBOXES[name](clock, options or Options())
    except ImportError as error:
        problem = f"{error.name} is missing: install headgate[sandbox]"
        raise InvalidInput("name", problem) from error


def _known() -> str:
    return ", ".join(sorted(SANDBOXES))
