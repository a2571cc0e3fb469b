"""Reading an athlete's activities: the list, an activity in full, and its laps.

All of these are marked essential: live work may read them on a small local share while the limiter
is away.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import Malformed, NoData
from headgate.ports.connector import Http

#: The most that Strava gives in one page.
PER_PAGE = 200


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """An activity as it stands in a list, or by itself."""

    id: int
    start: datetime
    #: Entered by hand: there never are streams.
    manual: bool
    #: All that Strava said of it.
    data: JsonObject

    @property
    def streams_id(self) -> str | None:
        """What its streams are asked for by; None where there cannot be any."""
        return None if self.manual else str(self.id)


class _Known(msgspec.Struct, frozen=True):
    id: int
    start_date: datetime
    manual: bool = False


def listed(data: JsonObject) -> Listed:
    """What must be known of an activity, checked; Malformed where it is not there."""
    try:
        known = msgspec.convert(data, _Known, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(f"Strava gave an activity that cannot be read: {error}") from None
    start = known.start_date
    # Strava writes a Z; without one it would be the same moment.
    start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
    return Listed(id=known.id, start=start, manual=known.manual, data=data)


async def list_activities(
    http: Http, *, before: datetime | None = None, after: datetime | None = None
) -> Sequence[Listed]:
    """The newest activities between the two moments, the newest first; at most a page of them.

    To go on, ask for those before a second past the last one's start: page numbers shift when an
    activity is added or deleted meanwhile, moments do not. What the athlete hides is left out of a
    page after it was cut, so a short page is not the end; one without anything older is.
    """
    params: dict[str, object] = {"per_page": PER_PAGE, "page": 1}
    if before is not None:
        params["before"] = int(before.timestamp())
    if after is not None:
        params["after"] = int(after.timestamp())
    page = await http.get("/athlete/activities", params, essential=True)
    found = [listed(each) for each in page.json(list[dict[str, object]])]
    # `after` alone would give the oldest first.
    return sorted(found, key=lambda each: each.start, reverse=True)


async def read_activity(http: Http, activity_id: str) -> JsonObject:
    """An activity in full, with its laps; NoData where it is gone."""
    path = f"/activities/{activity_id}"
    answer = await http.get(path, essential=True, not_found=NoData)
    details = answer.json(dict[str, object])
    # One that was entered by hand has none, and need not be asked for them.
    laps = [] if listed(details).manual else await _laps(http, f"{path}/laps")
    return {**details, "laps": laps}


async def _laps(http: Http, path: str) -> list[JsonObject]:
    try:
        answer = await http.get(path, essential=True, not_found=NoData)
    except NoData:
        return []
    return answer.json(list[JsonObject])
