"""What an import will cost and how long it may take, before it starts and while it runs."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta


class DayCost(msgspec.Struct, frozen=True, kw_only=True):
    """What reading one day costs at one provider, on the average: from so many requests to so many.

    A sync declares it; without, a forecast tells days only.
    """

    provider: str
    least: float
    most: float
    #: Which of the provider's limits they count against.
    kind: str = "read"


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to one provider."""

    provider: str
    least: int
    most: int


class LeftForLive(msgspec.Struct, frozen=True, kw_only=True):
    """What the import leaves of one limit, for live work."""

    provider: str
    limit: str
    amount: int
    left: int


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """When it ends, from the earliest to the latest that is likely."""

    earliest: datetime
    latest: datetime


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What an import would do; nothing was started."""

    days: Annotated[int, Meta(description="Days to be read.")]
    days_held: Annotated[int, Meta(description="Days of the range that are held already.")]
    requests: tuple[Requests, ...] = ()
    left_for_live: tuple[LeftForLive, ...] = ()
    finish: Annotated[
        Finish | None, Meta(description="null where the sync does not say what a day costs.")
    ] = None
