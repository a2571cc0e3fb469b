"""Foursquare, as a source of check-ins; `foursquare()` describes its API."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.connectors.foursquare.api import NAME, FoursquareArguments, foursquare
    from headgate.connectors.foursquare.checkin import FoursquareVenue, parse_checkin
    from headgate.connectors.foursquare.checkins import OVERLAP, FoursquareCheckins
    from headgate.connectors.foursquare.settings import FoursquareSettings
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "NAME",
    "OVERLAP",
    "FoursquareArguments",
    "FoursquareCheckins",
    "FoursquareSettings",
    "FoursquareVenue",
    "foursquare",
    "parse_checkin",
]
