"""Strava, as a source and as a destination; `strava()` describes its API."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.connectors.strava.activities import (
        PER_PAGE,
        StravaActivity,
        list_activities,
        parse_activity,
        read_activity,
    )
    from headgate.connectors.strava.api import (
        NAME,
        READ_SCOPES,
        UPLOAD_SCOPES,
        StravaArguments,
        strava,
    )
    from headgate.connectors.strava.settings import StravaSettings
    from headgate.connectors.strava.streams import StreamAttributes, fetch_streams
    from headgate.connectors.strava.uploads import StravaUploads
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "NAME",
    "PER_PAGE",
    "READ_SCOPES",
    "UPLOAD_SCOPES",
    "StravaActivity",
    "StravaArguments",
    "StravaSettings",
    "StravaUploads",
    "StreamAttributes",
    "fetch_streams",
    "list_activities",
    "parse_activity",
    "read_activity",
    "strava",
]
