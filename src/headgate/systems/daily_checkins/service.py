"""`CheckIns`, the system's API in Python: imports a user's check-ins, and reads them."""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Row

from headgate import App, ConnectionState, InvalidInput, JobState, Mode, NotFound
from headgate.connectors.foursquare import NAME
from headgate.systems.daily_checkins import tables
from headgate.systems.daily_checkins.names import LIST_MAX, SYNC
from headgate.types import Job, SubmitResult

#: Seconds since 1970, up to a year that has four digits, and an id.
_CURSOR = re.compile(r"([0-9]{1,11})-([^\x00]+)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: No zone is further from UTC.
_OFFSET_MIN_MAX = 24 * 60 - 1


class Venue(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a check-in."""

    id: Annotated[str | None, Meta(description="Foursquare's id.")]
    name: str | None
    category: Annotated[str | None, Meta(description="Its primary category.")]
    address: str | None
    city: str | None
    country: str | None
    lat: float | None
    lng: float | None


class CheckIn(msgspec.Struct, frozen=True, kw_only=True):
    """A check-in of a user."""

    id: Annotated[str, Meta(description="Foursquare's id.")]
    user_id: str
    connection_id: Annotated[str, Meta(description="The connection that it was read by last.")]
    created_at: Annotated[datetime, Meta(description="When it was made, in UTC.")]
    local_time: Annotated[
        datetime | None, Meta(description="The same where it was made; null if that is not known.")
    ]
    venue: Venue
    shout: str | None
    imported_at: Annotated[datetime, Meta(description="When it was first imported.")]
    updated_at: Annotated[datetime, Meta(description="When an import last changed it.")]


class CheckInDetail(CheckIn, frozen=True, kw_only=True):
    """A check-in with everything that Foursquare says of it."""

    content: Annotated[
        dict[str, Any], Meta(description="Foursquare's JSON, as it was imported last.")
    ]


class ImportSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An import, and what it brought."""

    job_id: str
    state: JobState
    message: Annotated[
        str, Meta(description="For the user: what happened, what happens next, what to do.")
    ]
    new: Annotated[int, Meta(description="Check-ins that were not there before.")]
    changed: Annotated[int, Meta(description="Check-ins that were there, and had changed.")]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ImportStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a user's check-ins are imported."""

    user_id: str
    connection: Annotated[
        ConnectionState | None, Meta(description="null: the user has not connected Foursquare.")
    ]
    check_ins: Annotated[int, Meta(description="How many are stored.")]
    newest_at: Annotated[datetime | None, Meta(description="When the newest was made.")]
    succeeded_at: Annotated[
        datetime | None, Meta(description="When an import last succeeded; null: never.")
    ]
    last_import: Annotated[ImportSummary | None, Meta(description="null: there was none yet.")]


class CheckIns:
    """Imports and reads check-ins. What is not the user's is NotFound."""

    def __init__(self, app: App) -> None:
        """Use `app`, which must be open and have the sync of this system."""
        self._app = app

    async def start_import(
        self,
        *,
        user_id: str,
        connection_id: str | None = None,
        full: bool = False,
        key: str | None = None,
    ) -> SubmitResult:
        """Import what is new; with `full`, read everything again.

        Raises ActiveJobExists, which names the job, while an import of the connection is active:
        that one is left alone.
        """
        return await self._app.jobs.submit(
            SYNC,
            user_id=user_id,
            connection_id=connection_id,
            mode=Mode.FULL if full else Mode.SINCE,
            key=key,
        )

    async def list(
        self, *, user_id: str, limit: int = 50, before: str | None = None
    ) -> Sequence[CheckIn]:
        """Return a user's check-ins, the newest first; `before` is the cursor of the last one."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        begin = None if before is None else read_cursor(before)
        found = await self._app.read(
            lambda tx: tables.list_checkins(tx, user_id, before=begin, limit=limit)
        )
        return [CheckIn(**_fields(row)) for row in found]

    async def get(self, checkin_id: str, *, user_id: str) -> CheckInDetail:
        """Return a check-in of the user's; raises NotFound if the user has none of that id."""
        row = await self._app.read(lambda tx: tables.get(tx, user_id, checkin_id))
        if row is None:
            raise NotFound(f"there is no check-in {checkin_id!r}")
        return CheckInDetail(**_fields(row), content=msgspec.json.decode(row.content))

    async def status(self, *, user_id: str) -> ImportStatus:
        """Return how far the user's check-ins are imported."""
        count, newest = await self._app.read(lambda tx: tables.summarize(tx, user_id))
        last = await self._last_import(user_id)
        succeeded = await self._last_import(user_id, JobState.SUCCESS)
        connections = [
            each for each in await self._app.connections.of_user(user_id) if each.source == NAME
        ]
        return ImportStatus(
            user_id=user_id,
            connection=connections[-1].state if connections else None,
            check_ins=count,
            newest_at=newest,
            succeeded_at=None if succeeded is None else succeeded.finished_at,
            last_import=None if last is None else await self._summarize(last),
        )

    async def _last_import(self, user_id: str, *states: JobState) -> Job | None:
        found = await self._app.jobs.list(user_id=user_id, sync=SYNC, states=states, limit=1)
        return found[0] if found else None

    async def _summarize(self, job: Job) -> ImportSummary:
        return ImportSummary(
            job_id=job.id,
            state=job.state,
            message=(await self._app.jobs.view(job)).message,
            new=job.summary.inserted,
            changed=job.summary.updated,
            created_at=job.created_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
        )


async def erase(app: App, user_id: str) -> None:
    """Delete all check-ins of a user; safe to repeat."""
    while await app.write(lambda tx: tables.erase_some(tx, user_id)):
        pass


async def export(app: App, user_id: str) -> AsyncIterator[dict[str, Any]]:
    """Return all check-ins of a user, the newest first."""
    check_ins, before = CheckIns(app), None
    while page := await check_ins.list(user_id=user_id, limit=LIST_MAX, before=before):
        for each in page:
            yield {"type": "check_in", **msgspec.to_builtins(each)}
        before = cursor_of(page[-1])


def cursor_of(checkin: CheckIn) -> str:
    """Return the place of a check-in in the list, as a text for the next page."""
    return f"{int(checkin.created_at.timestamp())}-{checkin.id}"


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """Return the time and the id of a cursor; raises InvalidInput if it is none."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidInput("after", "is not the next_cursor of a page")
    return _EPOCH + timedelta(seconds=int(found[1])), found[2]


def _fields(row: Row[Any]) -> dict[str, Any]:
    columns = row._mapping
    venue = {name: columns[f"venue_{name}"] for name in Venue.__struct_fields__}
    same = [name for name in CheckIn.__struct_fields__ if name in columns and name != "venue"]
    return {
        **{name: columns[name] for name in same},
        "local_time": _local_time(row.created_at, row.time_zone_offset_min),
        "venue": Venue(**venue),
    }


def _local_time(at: datetime, offset_min: int | None) -> datetime | None:
    if offset_min is None or abs(offset_min) > _OFFSET_MIN_MAX:
        return None
    try:
        return at.astimezone(timezone(timedelta(minutes=offset_min)))
    except OverflowError:
        return None
