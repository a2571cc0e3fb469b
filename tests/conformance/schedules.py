"""Schedules, ticks and crowds of users for tests of the store."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert

from headgate.model.connection import ConnectionReason
from headgate.model.schedule import TickKind, TickUser
from headgate.model.states import ConnectionState
from headgate.model.user import Preferences
from headgate.ports.schedules import CandidateQuery, DeclaredSchedule, NewTick, ScheduledJob
from headgate.store.sql.engine.database import Database
from headgate.store.sql.tables import connections, users
from tests.stores import START, new_job

DAY = timedelta(days=1)
NIGHTLY = DeclaredSchedule("nightly", "cron 0 2 * * * in UTC", START)
QUERY = CandidateQuery(schedule="nightly", sync="notes", source="roam")


def connection_row(number: int, **fields: Any) -> dict[str, Any]:
    """A row of an active connection."""
    return {
        "id": f"connection_{number:05d}",
        "user_id": f"user_{number:05d}",
        "source": "roam",
        "state": ConnectionState.ACTIVE,
        "reason": ConnectionReason.CONNECTED,
        "scopes": (),
        "sealed_access": b"",
        "key_id": "k1",
        "version": 1,
        "created_at": START,
        "updated_at": START,
        **fields,
    }


def user_row(number: int, **fields: Any) -> dict[str, Any]:
    """A row of a user who is here now."""
    return {
        "id": f"user_{number:05d}",
        "last_login_at": START,
        "preferences": Preferences(),
        "created_at": START,
        "updated_at": START,
        **fields,
    }


async def people(database: Database, *rows: tuple[dict[str, Any], dict[str, Any] | None]) -> None:
    """Store connections, each with its user unless that is None."""
    await database.write(
        lambda tx: tx.execute(insert(connections), [connection for connection, _ in rows])
    )
    known = [user for _, user in rows if user is not None]
    if known:
        await database.write(lambda tx: [tx.execute(insert(users).values(**row)) for row in known])


async def crowd(database: Database, count: int) -> None:
    """So many users with a connection each."""
    numbers = range(1, count + 1)
    await database.write(
        lambda tx: tx.execute(insert(connections), [connection_row(each) for each in numbers])
    )
    await database.write(lambda tx: tx.execute(insert(users), [user_row(each) for each in numbers]))


def scheduled(number: int, starts_at: datetime, tick: datetime) -> ScheduledJob:
    """A job of a tick for a user."""
    name = f"{number:05d}"
    return ScheduledJob(
        new_job(
            user_id=f"user_{name}", connection_id=f"connection_{name}", key=f"nightly {tick} {name}"
        ),
        starts_at,
    )


def new_tick(
    numbers: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    tick: datetime = START,
    planned: datetime | None = START,
    next_tick_at: datetime | None = None,
    skips: Sequence[TickUser] = (),
    **fields: Any,
) -> NewTick:
    """A tick with a job for each user, two minutes apart."""
    following = next_tick_at or (None if planned is None else tick + DAY)
    return NewTick(
        **{
            "schedule": NIGHTLY.name,
            "definition": NIGHTLY.definition,
            "tick": tick,
            "kind": TickKind.CRON,
            "worker": "worker_1",
            "planned": planned,
            "next_tick_at": following,
            "jobs": [
                scheduled(number, tick + place * timedelta(minutes=2), tick)
                for place, number in enumerate(numbers)
            ],
            "skips": skips,
            **fields,
        }
    )
