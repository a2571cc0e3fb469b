"""Reads a user's check-ins, from the oldest to the newest; the next job goes on where one ended.

The high-water mark is the newest second that was read. A job in mode `since` begins a while before
it, because a check-in that was made offline arrives late, and one may be edited for a day.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Unpack

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import Malformed
from headgate.connectors.foursquare.api import VERSION
from headgate.connectors.foursquare.checkin import FoursquareCheckin, parse_checkin
from headgate.connectors.foursquare.paging import (
    OVERLAP_S,
    PAGE_MAX,
    CheckinCursor,
    after_crowd,
    after_page,
    crowded_s,
    unread,
)
from headgate.connectors.http.api import ApiOptions
from headgate.connectors.http.source import ApiSource
from headgate.model.budget import Budget
from headgate.model.job import Progress
from headgate.model.record import Record
from headgate.ports.connections.auth import Auth
from headgate.ports.connector import Chunk, Context
from headgate.ports.http import Http

#: How long before the high-water mark the next job begins.
OVERLAP = timedelta(days=1)


class CheckinPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of check-ins, the oldest first."""

    checkins: Sequence[FoursquareCheckin]
    #: How many the user has in all, whatever the page is about.
    count: int


class FoursquareCheckins(ApiSource):
    """Reads one page of a user's check-ins a chunk."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        title: str | None = None,
        auth: Auth | None = None,
        budget: Budget | None = None,
        overlap: timedelta = OVERLAP,
        **api: Unpack[ApiOptions],
    ) -> None:
        """Begin so long before the high-water mark; the rest is as for every `ApiSource`."""
        super().__init__(name, base_url=base_url, title=title, auth=auth, budget=budget, **api)
        self._overlap_s = max(OVERLAP_S, int(overlap.total_seconds()))

    async def read(self, ctx: Context) -> Chunk:
        """Read one page."""
        cursor = self._begin(ctx)
        page = await list_checkins(ctx.http, after_s=cursor.after_s)
        found = list(page.checkins)
        second = crowded_s(cursor, found)
        if second is None:
            following, is_last = after_page(cursor, found)
        else:
            rest = await list_checkins(
                ctx.http, after_s=cursor.after_s, before_s=second + 2, newest_first=True
            )
            following, is_last = after_crowd(cursor, second, found, rest.checkins), False
            found += rest.checkins
        records = [Record(each.id, each.data) for each in unread(cursor, found)]
        done = ctx.records + len(records)
        return Chunk(
            records=records,
            cursor=None if is_last else msgspec.to_builtins(following),
            high_water=_mark(following.newest_s, ctx.clock.now()),
            progress=Progress(done=done, total=max(done, page.count) if _is_whole(ctx) else None),
        )

    def _begin(self, ctx: Context) -> CheckinCursor:
        if ctx.cursor is not None:
            return msgspec.convert(ctx.cursor, CheckinCursor)
        if ctx.since is not None:
            return CheckinCursor(after_s=max(0, int(ctx.since.timestamp()) - OVERLAP_S))
        if isinstance(ctx.high_water, int):
            after_s = max(0, ctx.high_water - self._overlap_s)
            return CheckinCursor(after_s=after_s, newest_s=ctx.high_water)
        return CheckinCursor()


async def list_checkins(
    http: Http,
    *,
    after_s: int | None = None,
    before_s: int | None = None,
    newest_first: bool = False,
) -> CheckinPage:
    """Return a page of the check-ins between two seconds; `newest_first` says which page."""
    order = "newestfirst" if newest_first else "oldestfirst"
    params: dict[str, object] = {"v": VERSION, "limit": PAGE_MAX, "sort": order}
    if after_s is not None:
        params["afterTimestamp"] = after_s
    if before_s is not None:
        params["beforeTimestamp"] = before_s
    answer = (await http.get("/users/self/checkins", params)).json(_Answer).response.checkins
    found = [parse_checkin(each) for each in answer.items]
    times = [each.created_s for each in found]
    if times != sorted(times, reverse=newest_first):
        # Paging by time would leave out what is not in order.
        raise Malformed("Foursquare gave check-ins that are not in the order of their times")
    return CheckinPage(checkins=found[::-1] if newest_first else found, count=answer.count)


class _Checkins(msgspec.Struct, frozen=True):
    items: list[JsonObject]
    count: int = 0


class _Response(msgspec.Struct, frozen=True):
    checkins: _Checkins


class _Answer(msgspec.Struct, frozen=True):
    response: _Response


def _is_whole(ctx: Context) -> bool:
    """Whether the job reads everything, so that the total is known."""
    return ctx.since is None and ctx.high_water is None


def _mark(newest_s: int | None, now: datetime) -> int | None:
    """Return the high-water mark; a check-in from the future must not hide those that follow."""
    return None if newest_s is None else min(newest_s, int(now.timestamp()))
