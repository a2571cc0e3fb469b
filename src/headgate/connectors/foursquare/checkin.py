"""A check-in as Foursquare gives it: the fields that are known, and the whole object."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import Malformed
from headgate.connectors.foursquare.api import EPOCH_S_MAX

_ID_LENGTH_MAX = 200


class FoursquareLocation(msgspec.Struct, frozen=True):
    """Where a venue is."""

    lat: float | None = None
    lng: float | None = None
    address: str | None = None
    city: str | None = None
    country: str | None = None


class FoursquareCategory(msgspec.Struct, frozen=True):
    """What kind of place a venue is."""

    name: str | None = None
    primary: bool = False


class FoursquareVenue(msgspec.Struct, frozen=True):
    """A place that people check in at."""

    id: str | None = None
    name: str | None = None
    location: FoursquareLocation = FoursquareLocation()
    categories: tuple[FoursquareCategory, ...] = ()

    @property
    def category(self) -> str | None:
        """The name of its primary category, or of its first."""
        by_rank = sorted(self.categories, key=lambda each: not each.primary)
        return by_rank[0].name if by_rank else None


class FoursquareCheckin(msgspec.Struct, frozen=True, kw_only=True):
    """A check-in of a user."""

    id: str
    #: Seconds since 1970.
    created_s: int
    #: Minutes ahead of UTC, where and when it was made.
    time_zone_offset_min: int | None
    shout: str | None
    #: A check-in of the early years may have none.
    venue: FoursquareVenue | None
    #: The whole JSON object.
    data: JsonObject

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return datetime.fromtimestamp(self.created_s, UTC)


class _Needed(msgspec.Struct, frozen=True, rename="camel"):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=_ID_LENGTH_MAX)]
    created_at: Annotated[int, msgspec.Meta(ge=0, le=EPOCH_S_MAX)]


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    time_zone_offset: int | None = None
    shout: str | None = None
    venue: FoursquareVenue | None = None


def parse_checkin(data: JsonObject) -> FoursquareCheckin:
    """Parse a check-in; raises Malformed if it has no valid id and time.

    Details that cannot be read are left out; `data` has them as they are.
    """
    try:
        needed = msgspec.convert(data, _Needed)
    except msgspec.ValidationError as error:
        raise Malformed(f"Foursquare gave a check-in that cannot be read: {error}") from None
    try:
        details = msgspec.convert(data, _Details, strict=False)
    except msgspec.ValidationError:
        details = _Details()
    return FoursquareCheckin(
        id=needed.id,
        created_s=needed.created_at,
        time_zone_offset_min=details.time_zone_offset,
        shout=details.shout,
        venue=details.venue,
        data=data,
    )
