"""Reads an athlete's activities: the list, an activity in full, and its laps.

All requests are marked essential: while the limiter cannot be reached, live work may still send
them, from a small local share.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import Malformed, NoData
from headgate.ports.http import Http

#: The largest page that Strava gives.
PER_PAGE = 200


class StravaActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity, from a list or by itself."""

    id: int
    start: datetime
    #: Whether it was entered by hand; then it never has streams.
    manual: bool
    #: The whole JSON object.
    data: JsonObject

    @property
    def streams_id(self) -> str | None:
        """The id to fetch its streams by; None if it cannot have any."""
        return None if self.manual else str(self.id)


class _ActivityFields(msgspec.Struct, frozen=True):
    id: int
    start_date: datetime
    manual: bool = False


def parse_activity(data: JsonObject) -> StravaActivity:
    """Parse an activity; raises Malformed if a required field is missing."""
    try:
        known = msgspec.convert(data, _ActivityFields, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(f"Strava gave an activity that cannot be read: {error}") from None
    start = known.start_date
    # Strava's times are in UTC, with or without the Z.
    start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
    return StravaActivity(id=known.id, start=start, manual=known.manual, data=data)


async def list_activities(
    http: Http, *, before: datetime | None = None, after: datetime | None = None
) -> Sequence[StravaActivity]:
    """Return one page of the activities between two times, the newest first.

    For the next page, pass a second after the last one's start as `before`: page numbers shift when
    an activity is added or deleted meanwhile, times do not. Strava removes hidden activities after
    it has cut a page, so a short page is not the end; a page without anything older is.
    """
    params: dict[str, object] = {"per_page": PER_PAGE, "page": 1}
    if before is not None:
        params["before"] = int(before.timestamp())
    if after is not None:
        params["after"] = int(after.timestamp())
    page = await http.get("/athlete/activities", params, essential=True)
    found = [parse_activity(each) for each in page.json(list[dict[str, object]])]
    # With `after` alone, Strava sends the oldest first.
    return sorted(found, key=lambda each: each.start, reverse=True)


async def read_activity(http: Http, activity_id: str) -> JsonObject:
    """Return an activity in full, with its laps; raises NoData if it is gone."""
    path = f"/activities/{activity_id}"
    answer = await http.get(path, essential=True, not_found=NoData)
    details = answer.json(dict[str, object])
    # An activity that was entered by hand has no laps: save the request.
    laps = [] if parse_activity(details).manual else await _read_laps(http, f"{path}/laps")
    return {**details, "laps": laps}


async def _read_laps(http: Http, path: str) -> list[JsonObject]:
    try:
        answer = await http.get(path, essential=True, not_found=NoData)
    except NoData:
        return []
    return answer.json(list[JsonObject])
