"""Erasing a user, and exporting what is stored of them.

An erasure first ends the user's jobs, whose workers lose their claims at once. It revokes what the
user has authorized at providers, and deletes the credentials. From then on nothing writes for the
user, and all rows are deleted in small batches: the engine's, and what each system keeps. A crash
loses nothing of it: whoever asks again goes on, and so does the eraser of every worker.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from headgate.base.encoding import JsonObject
from headgate.base.errors import Conflict, HeadgateError, IllegalTransition, InvalidInput, NotFound
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.jobs.control import cancel
from headgate.flow.jobs.submit import check_name
from headgate.flow.runtime import Runtime
from headgate.model import change
from headgate.model.connection import Connection
from headgate.model.erasure import Erasure
from headgate.model.job import Job, Lane
from headgate.model.states import JOB, ConnectionState, JobState
from headgate.ports.connections.auth import RevocableAuth
from headgate.ports.jobs.store import JobFilter

#: The most rows deleted or exported in one transaction.
BATCH_MAX = 500
_PAGE_MAX = 100
#: So long a worker leaves an erasure that failed, and goes on with others.
REST_S = 300.0

_log = get_logger(__name__)


class UserData:
    """What is stored of users: exporting and erasing it."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application; InvalidInput if its database cannot erase."""
        if rt.erasures is None or rt.system_data is None:
            raise InvalidInput("database", "this kind of database cannot erase or export users")
        self._rt = rt
        self._store = rt.erasures
        self._connections = rt.connections
        self._systems = rt.system_data
        #: Erasures that failed here, and until when they are left.
        self._resting: dict[str, float] = {}

    async def export(self, user_id: str) -> AsyncIterator[JsonObject]:
        """Everything that is stored of the user, without secrets, each row with its `type`."""
        for kind in self._store.kinds:
            after: tuple[object, ...] | None = None
            while True:
                page = await self._store.export_page(user_id, kind, after=after, limit=BATCH_MAX)
                for row in page.rows:
                    yield row
                after = page.after
                if after is None:
                    break
        async for row in self._systems.export(user_id):
            yield row

    async def forget(
        self,
        user_id: str,
        *,
        by: str,
        batches_max: int | None = None,
        on_progress: Callable[[Erasure], None] | None = None,
    ) -> Erasure:
        """Erase the user, or go on with an erasure that was interrupted.

        `by` says who asked for it, and `on_progress` is called after each batch. After
        `batches_max` batches it returns, not finished; the workers go on with it.
        """
        check_name("user_id", user_id)
        new_id = self._rt.ids.new("erasure")
        erasure = await self._store.begin(new_id, user_id, by=by, systems=self._systems.names)
        if erasure.id == new_id:
            _log.info(LogEvent.ERASURE_BEGUN, erasure=erasure.id, by=erasure.asked_by)
        batches = 0
        while erasure.finished_at is None and (batches_max is None or batches < batches_max):
            erasure = await self._erase_batch(erasure, user_id)
            batches += 1
            if on_progress is not None:
                on_progress(erasure)
        return erasure

    async def go_on(self) -> bool:
        """Do a batch of an erasure that has not finished; False if there is none.

        One that fails rests, so that it keeps no other from its end. One with a system that this
        application does not have is left to the workers of an application that has it.
        """
        now = self._rt.clock.monotonic()
        unfinished = await self._store.list_unfinished(limit=_PAGE_MAX)
        due = [
            each
            for each in unfinished
            if self._systems.names.issuperset(each.systems)
            and self._resting.get(each.id, now) <= now
        ]
        for erasure in due[:1]:
            try:
                await self._erase_batch(erasure, str(erasure.user_id))
            except Exception as error:  # What a system raises can be anything.
                self._resting[erasure.id] = now + REST_S
                _log.error(LogEvent.ERASURE_FAILED, erasure=erasure.id, error=describe_error(error))
        return bool(due)

    async def _erase_batch(self, erasure: Erasure, user_id: str) -> Erasure:
        """Delete a batch, and finish if nothing is left; others may work on the same erasure."""
        await self._end_jobs(user_id)
        await self._disconnect(erasure, user_id)
        if await self._store.erase_some(erasure.id, limit=BATCH_MAX) < BATCH_MAX:
            await self._systems.erase(user_id)
            finished = await self._store.finish(erasure.id)
            if finished is not None:
                _log.info(LogEvent.USER_ERASED, erasure=erasure.id, deleted=dict(finished.deleted))
                return finished
        return await self._store.get(erasure.id)

    # ---- what could still write for the user ---------------------------------------------------

    async def _end_jobs(self, user_id: str) -> None:
        """Cancel the user's jobs, and take them from their workers, who then write nothing."""
        while active := await self._active_jobs(user_id):
            for job in active:
                # It may end at this moment, be changed by somebody, or be erased by a worker that
                # goes on with the same erasure: look again.
                with suppress(IllegalTransition, Conflict, NotFound):
                    asked = await cancel(self._rt, job.id, deadline=timedelta(0))
                    if asked.state is JobState.CANCELLING:
                        await self._rt.jobs.settle(change.cancel(asked))

    async def _active_jobs(self, user_id: str) -> Sequence[Job]:
        active = JobFilter(user_id=user_id, states=JOB.active)
        return await self._rt.jobs.list_jobs(active, limit=_PAGE_MAX)

    async def _disconnect(self, erasure: Erasure, user_id: str) -> None:
        """Revoke what the user has authorized, where providers can do so, and delete it here."""
        while found := await self._connections.list_connections(user_id, limit=_PAGE_MAX):
            for connection in found:
                revoked = await self._revoke(connection)
                # It is gone if another process that erases the same user was quicker.
                with suppress(NotFound):
                    if not revoked:
                        await self._connections.get(connection.id, user_id=user_id)
                        await self._store.note_unrevoked(erasure.id, connection.source)
                    await self._connections.remove(connection.id, user_id=user_id)

    async def _revoke(self, connection: Connection) -> bool:
        """Revoke the authorization; False if the user has to do so at the provider."""
        auth = self._rt.registry.auths.get(connection.source)
        credentials = self._rt.credentials
        if connection.state is ConnectionState.NEEDS_REAUTH:
            # The provider no longer accepts it.
            return True
        if credentials is None or not isinstance(auth, RevocableAuth) or not auth.can_revoke:
            return False
        budget = self._rt.registry.budgets.get(connection.source)
        gate = self._rt.gates.of(budget, Lane.HOT, connection.id)
        try:
            async with gate.request():
                await credentials.revoke(auth, connection)
        except HeadgateError as error:
            _log.warning(
                LogEvent.NOT_REVOKED,
                connection=connection.id,
                source=connection.source,
                error=describe_error(error),
            )
            return False
        return True
