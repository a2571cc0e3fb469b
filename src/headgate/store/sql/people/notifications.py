"""Notifications in the transaction of the change that they tell of, and what was told so far.

The rows of what is known are locked before it is decided what is news, so that two processes
tell it once. An application that notifies nobody never gets here.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, select, tuple_, update

from headgate.base.errors import StoreError
from headgate.model.change import JobChange
from headgate.model.job import Job
from headgate.model.notification import NotificationKind, NotifiedState, Subject, TroubleRow
from headgate.policy.notifications import NotificationDecision, decide, matters, subjects
from headgate.ports.people.notifications import NotificationComposer
from headgate.store.sql.engine.callers import caller_transaction
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.items import removals
from headgate.store.sql.leases.table import RowUpdate
from headgate.store.sql.outbox import writer as outbox_writer
from headgate.store.sql.people import users
from headgate.store.sql.tables import troubles as table

#: How often rows are locked while others delete and write the same ones.
LOCK_TRIES_MAX = 5

_ORDER = (table.c.connection_id, table.c.sync)
_COLUMNS = tuple(table.c[name] for name in TroubleRow.__struct_fields__)
_NOTHING = NotifiedState()


def tell(
    tx: Connection,
    settled: Sequence[RowUpdate[Job, JobChange, Any]],
    composer: NotificationComposer,
) -> None:
    """Write the notifications about these changes, as far as they are news."""
    relevant = [each for each in settled if matters(each.change, each.row)]
    if not relevant:
        return
    may_begin: dict[Subject, Job] = {}
    for each in relevant:
        news = decide(each.change, each.row, {}, composer.rules, at=each.now)
        begun = (subject for subject, told in news.told.items() if told != _NOTHING)
        may_begin |= dict.fromkeys(begun, each.row)
    wanted = {subject for each in relevant for subject in subjects(each.row)} | set(may_begin)
    known = _lock(tx, wanted, may_begin, relevant[0].now)
    for each in relevant:
        news = decide(each.change, each.row, known, composer.rules, at=each.now)
        if news.kind is NotificationKind.NEEDS_REAUTH and _is_removed(tx, each.row):
            # The user has removed the connection, and knows that nothing comes through it.
            continue
        news = announce(tx, news, known, each.row, composer, each.now)
        store(tx, news.told, each.row, each.now)
        known |= news.told
    blank = [each for each in may_begin if known.get(each, _NOTHING) == _NOTHING]
    delete_rows(tx, blank)


def _is_removed(tx: Connection, job: Job) -> bool:
    return bool(removals.removed_among(tx, [job.provider_connection_id or job.connection_id]))


def announce(
    tx: Connection,
    news: NotificationDecision,
    known: Mapping[Subject, NotifiedState],
    job: Job,
    composer: NotificationComposer,
    at: datetime,
) -> NotificationDecision:
    """Enqueue what is to be told; returns the news, as they are if nobody can be told."""
    if news.kind is None:
        return news
    to_user = composer.emails_users and users.email_of(tx, job.user_id) is not None
    new = composer.compose(news, job, at=at, to_user=to_user)
    if new is None:
        return news.unheard(known)
    outbox_writer.write(caller_transaction(tx), new, at)
    return news


# ---- what is known -----------------------------------------------------------------------------


#: Built once, because it runs for every success. It may find more than is wanted: the syncs of one
#: subject with the connections of another.
_locking = (
    select(*_ORDER, table.c.trouble, table.c.paused_at)
    .where(
        table.c.connection_id.in_(bindparam("connections", expanding=True)),
        table.c.sync.in_(bindparam("syncs", expanding=True)),
    )
    .order_by(*_ORDER)
    .with_for_update()
)


def _lock(
    tx: Connection, wanted: Collection[Subject], may_begin: Mapping[Subject, Job], at: datetime
) -> dict[Subject, NotifiedState]:
    """What is known of these subjects, locked; those that may get a trouble have rows now."""
    binds = {
        "connections": sorted({each.connection_id for each in wanted}),
        "syncs": sorted({each.sync for each in wanted}),
    }
    for _ in range(LOCK_TRIES_MAX):
        _insert_blank(tx, may_begin, at)
        rows = tx.execute(_locking, binds).all()
        known = {Subject(row[0], row[1]): NotifiedState(row[2], row[3]) for row in rows}
        # One may be missing: another transaction has deleted it after it was found to be there.
        if all(each in known for each in may_begin):
            return known
    raise StoreError("what was told about a connection keeps changing; try again")


def _insert_blank(tx: Connection, may_begin: Mapping[Subject, Job], at: datetime) -> None:
    # In their order, as everywhere, so that transactions never deadlock.
    rows = [
        {**subject._asdict(), "user_id": job.user_id, "job_id": job.id, "updated_at": at}
        for subject, job in sorted(may_begin.items(), key=lambda each: each[0])
    ]
    if rows:
        tx.execute(insert_into(tx.dialect, table).values(rows).on_conflict_do_nothing())


_update = (
    update(table)
    .where(
        table.c.connection_id == bindparam("of_connection"),
        table.c.sync == bindparam("of_sync"),
    )
    .values({name: bindparam(f"new_{name}") for name in ("trouble", "paused_at", "job_id")})
    .values(updated_at=bindparam("new_updated_at"))
)


def store(tx: Connection, told: Mapping[Subject, NotifiedState], job: Job, at: datetime) -> None:
    """Write what is known of subjects that have rows; one that is well needs none."""
    delete_rows(tx, [each for each, known in told.items() if known == _NOTHING])
    for subject, known in told.items():
        if known != _NOTHING:
            values = {
                "of_connection": subject.connection_id,
                "of_sync": subject.sync,
                "new_trouble": known.trouble,
                "new_paused_at": known.paused_at,
                "new_job_id": job.id,
                "new_updated_at": at,
            }
            tx.execute(_update, values)


def delete_rows(tx: Connection, gone: Sequence[Subject]) -> None:
    """Delete what is known of these subjects."""
    if gone:
        tx.execute(delete(table).where(_among(gone)))


def _among(wanted: Iterable[Subject]) -> ColumnElement[bool]:
    return tuple_(*_ORDER).in_(sorted(map(tuple, wanted)))


# ---- reading -----------------------------------------------------------------------------------


def list_troubles(
    tx: Connection,
    *,
    user_id: str | None = None,
    limit: int,
    after: tuple[str, str] | None = None,
) -> list[TroubleRow]:
    """What is the matter, as people were told, in the order of connections and syncs."""
    query = select(*_COLUMNS).where(table.c.trouble.is_not(None))
    if user_id is not None:
        query = query.where(table.c.user_id == user_id)
    if after is not None:
        query = query.where(tuple_(*_ORDER) > after)
    return [to_row(row) for row in tx.execute(query.order_by(*_ORDER).limit(limit))]


def to_row(row: Any) -> TroubleRow:
    """The value of a row of the table."""
    return TroubleRow(**dict(zip(TroubleRow.__struct_fields__, row, strict=True)))
