"""Foursquare, as a source of check-ins; `foursquare()` describes its API."""

from headgate.connectors.foursquare.api import FoursquareApi, foursquare
from headgate.connectors.foursquare.checkins import FoursquareCheckins

__all__ = ["FoursquareApi", "FoursquareCheckins", "foursquare"]
