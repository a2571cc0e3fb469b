"""The system's own table, and its SQL: plain functions that `app.read` and `app.write` run.

Its migrations lie beside this file. Whose a check-in is, is part of every statement.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ClauseElement,
    Column,
    Connection,
    Dialect,
    Double,
    FromClause,
    Index,
    Integer,
    MetaData,
    Row,
    Table,
    Text,
    and_,
    delete,
    func,
    literal,
    select,
    tuple_,
)

from headgate import Record, RecordCounts, TableBatch
from headgate.connectors.foursquare import FoursquareVenue, parse_checkin
from headgate.toolkit import content_hash, to_json
from headgate.toolkit.tables import BatchStatement, Insert, UtcTime, by_key, insert_many

#: The most rows that one transaction erases, so that others get their turn between.
ERASED_AT_ONCE = 2_000

metadata = MetaData()
checkins = Table(
    "daily_checkins_checkins",
    metadata,
    Column("user_id", Text, primary_key=True),
    #: Foursquare's id.
    Column("id", Text, primary_key=True),
    #: The connection that it was read by last.
    Column("connection_id", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    #: Minutes ahead of UTC, where and when it was made.
    Column("time_zone_offset_min", Integer),
    Column("shout", Text),
    Column("venue_id", Text),
    Column("venue_name", Text),
    Column("venue_category", Text),
    Column("venue_address", Text),
    Column("venue_city", Text),
    Column("venue_country", Text),
    Column("venue_lat", Double),
    Column("venue_lng", Double),
    #: Foursquare's JSON as text: it may hold characters that Postgres' own JSON refuses.
    Column("content", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("imported_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    # In the order in which they are listed.
    Index("daily_checkins_checkins_by_time", "user_id", "created_at", "id"),
    # For the metrics.
    Index("daily_checkins_checkins_by_import", "imported_at"),
)
_KEY = ("user_id", "id")
#: An import that reads a check-in again does not change when it was first imported.
_REWRITTEN = [each.name for each in checkins.c if each.name not in (*_KEY, "imported_at")]


def _select_hashes(given: FromClause, dialect: Dialect) -> ClauseElement:
    same = [checkins.c[name] == given.c[name] for name in _KEY]
    return select(checkins.c.id, checkins.c.hash).select_from(given.join(checkins, and_(*same)))


def _rewrite(insert: Insert) -> Insert:
    return insert.on_conflict_do_update(
        index_elements=_KEY, set_={name: insert.excluded[name] for name in _REWRITTEN}
    )


_hashes = BatchStatement(by_key({name: checkins.c[name].type for name in _KEY}), _select_hashes)
_upsert = insert_many(checkins, checkins.columns.keys(), _rewrite)


class CheckinTable:
    """Stores the check-ins of a chunk, in the transaction that commits its cursor."""

    def store(self, tx: Connection, batch: TableBatch) -> RecordCounts:
        """Store each check-in once by its id; one that has not changed is not written again."""
        # In one order by whoever writes them, so that two transactions with the same check-ins do
        # not wait for each other.
        rows = [_row(batch, each) for each in sorted(batch.records, key=lambda each: each.key)]
        known = {row_id: row_hash for row_id, row_hash in _hashes.run(tx, rows)}
        changed = [row for row in rows if known.get(row["id"]) != row["hash"]]
        _upsert.run(tx, changed)
        updated = sum(row["id"] in known for row in changed)
        return RecordCounts(
            inserted=len(changed) - updated, updated=updated, unchanged=len(rows) - len(changed)
        )


def _row(batch: TableBatch, record: Record) -> dict[str, Any]:
    found = parse_checkin(record.data)
    venue = found.venue or FoursquareVenue()
    texts = {
        "shout": found.shout,
        "venue_id": venue.id,
        "venue_name": venue.name,
        "venue_category": venue.category,
        "venue_address": venue.location.address,
        "venue_city": venue.location.city,
        "venue_country": venue.location.country,
    }
    return {
        "user_id": batch.user_id,
        "id": found.id,
        "connection_id": batch.connection_id,
        "created_at": found.created_at,
        "time_zone_offset_min": found.time_zone_offset_min,
        **{name: _storable(text) for name, text in texts.items()},
        "venue_lat": venue.location.lat,
        "venue_lng": venue.location.lng,
        "content": to_json(found.data),
        "hash": content_hash(found.data),
        "imported_at": batch.at,
        "updated_at": batch.at,
    }


def _storable(text: str | None) -> str | None:
    """The text without NUL, which Postgres cannot store."""
    return None if text is None else text.replace("\0", "")


def list_checkins(
    tx: Connection, user_id: str, *, before: tuple[datetime, str] | None, limit: int
) -> Sequence[Row[Any]]:
    """A user's check-ins, the newest first, older than the one at the time and with the id."""
    order = (checkins.c.created_at, checkins.c.id)
    query = select(checkins).where(checkins.c.user_id == user_id)
    if before is not None:
        at, checkin_id = before
        query = query.where(tuple_(*order) < tuple_(literal(at, UtcTime), literal(checkin_id)))
    return tx.execute(query.order_by(*(each.desc() for each in order)).limit(limit)).all()


def get(tx: Connection, user_id: str, checkin_id: str) -> Row[Any] | None:
    """A user's check-in; None if the user has none of that id."""
    mine = (checkins.c.user_id == user_id, checkins.c.id == checkin_id)
    return tx.execute(select(checkins).where(*mine)).one_or_none()


def summarize(tx: Connection, user_id: str) -> tuple[int, datetime | None]:
    """How many check-ins a user has, and when the newest was made."""
    query = select(func.count(), func.max(checkins.c.created_at, type_=UtcTime))
    count, newest = tx.execute(query.where(checkins.c.user_id == user_id)).one()
    return count, newest


def count_since(tx: Connection, since: datetime) -> tuple[int, int]:
    """How many check-ins of all users are new since then, and of how many users they are."""
    query = select(func.count(), func.count(checkins.c.user_id.distinct()))
    count, users = tx.execute(query.where(checkins.c.imported_at >= since)).one()
    return count, users


def erase_some(tx: Connection, user_id: str) -> int:
    """Delete some check-ins of a user; returns how many: 0 when none is left."""
    key = [checkins.c[name] for name in _KEY]
    some = select(*key).where(checkins.c.user_id == user_id).limit(ERASED_AT_ONCE)
    return tx.execute(delete(checkins).where(tuple_(*key).in_(some))).rowcount
