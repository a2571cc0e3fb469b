"""Forecasts of a backfill: the requests it needs, and when it may finish."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta


class DayCost(msgspec.Struct, frozen=True, kw_only=True):
    """The requests to one provider that reading one day takes on average, from `least` to `most`.

    A sync declares them; without them a forecast only counts days.
    """

    provider: str
    least: float
    most: float
    #: The kind of the requests, which selects the limits that they count against.
    kind: str = "read"


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """The number of requests to one provider."""

    provider: str
    least: int
    most: int


class LeftForLive(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one limit that the backfill leaves for live work."""

    provider: str
    limit: str
    amount: int
    left: int


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """When the end is expected: likely at one time, and hardly before or after two others."""

    earliest: datetime
    likely: datetime
    latest: datetime


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of a backfill that has not been started."""

    days: Annotated[int, Meta(description="Days to be read.")]
    days_held: Annotated[int, Meta(description="Days of the range that are held already.")]
    requests: tuple[Requests, ...] = ()
    left_for_live: tuple[LeftForLive, ...] = ()
    finish: Annotated[
        Finish | None, Meta(description="null where nothing is known of what a day takes.")
    ] = None
    takes: Annotated[str | None, Meta(description="The same for people: how long it takes.")] = None
