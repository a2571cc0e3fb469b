"""Jobs that stay paused for long: nobody changes them, so the notifier tells of them."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace
from sqlalchemy import Connection, select

from headgate.model.job import Job
from headgate.model.notification import NotifiedState, Subject, TroubleRow
from headgate.policy.notifications import decide_long_pause
from headgate.ports.people.notifications import NotificationComposer
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, reads
from headgate.store.sql.jobs.settle import TABLE
from headgate.store.sql.people import notifications
from headgate.store.sql.tables import PAUSED_UNTOLD, jobs, troubles


def tell_paused(
    tx: Connection,
    now: Moment,
    composer: NotificationComposer,
    *,
    syncs: Sequence[str],
    limit: int,
) -> int:
    """Tell of jobs of these syncs that are paused for long; returns how many were looked at."""
    columns = [troubles.c[name] for name in TroubleRow.__struct_fields__]
    query = (
        select(*columns)
        .where(
            PAUSED_UNTOLD,
            troubles.c.paused_at <= now.at(-composer.rules.paused_after),
            troubles.c.sync.in_(syncs),
        )
        .order_by(troubles.c.paused_at, troubles.c.connection_id, troubles.c.sync)
        .limit(limit)
        # Another process tells of the others at this moment.
        .with_for_update(skip_locked=True)
    )
    found = [notifications.to_row(row) for row in tx.execute(query)]
    known = _jobs_by_id(tx, {each.job_id for each in found})
    for row in found:
        _tell_one(tx, now, row, known.get(row.job_id), composer)
    return len(found)


def _jobs_by_id(tx: Connection, ids: set[str]) -> dict[str, Job]:
    if not ids:
        return {}
    query = select(*TABLE.columns).where(jobs.c.id.in_(sorted(ids)))
    return {job.id: job for job in TABLE.find(tx, query)}


def _tell_one(
    tx: Connection, now: Moment, row: TroubleRow, job: Job | None, composer: NotificationComposer
) -> None:
    own, told = Subject(row.connection_id, row.sync), NotifiedState(row.trouble, row.paused_at)
    if job is None:
        # Somebody has deleted it by hand.
        notifications.delete_rows(tx, [own])
        return
    news = decide_long_pause(job, told)
    at = now.read(tx)
    heard = notifications.announce(tx, news, {own: told}, job, composer, at)
    if heard is not news:
        # Nobody is there to be told. The time begins anew, so it is not looked at all the time.
        heard = replace(heard, told={own: replace(told, paused_at=None)})
    notifications.store(tx, heard.told, job, at)


class SqlNotifications(SqlPort):
    """What people were told, in SQLite or Postgres."""

    def __init__(
        self,
        database: Database,
        syncs: Sequence[str],
        composer: NotificationComposer | None = None,
    ) -> None:
        """Tell, by `composer`, of the jobs of these syncs; None: nobody is told."""
        super().__init__(database)
        self._syncs = tuple(syncs)
        self._composer = composer

    async def tell_paused(self, *, limit: int) -> int:
        composer, now = self._composer, self.database.moment
        if composer is None:
            return 0
        tell = partial(tell_paused, syncs=self._syncs, limit=limit)
        return await self.database.write(lambda tx: tell(tx, now(), composer))

    list_troubles = reads(notifications.list_troubles)
