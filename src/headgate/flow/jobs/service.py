"""The jobs of an application: submitting, reading and controlling them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headgate.base.errors import InvalidInput
from headgate.flow.estimate.forecast import forecast
from headgate.flow.jobs import control
from headgate.flow.jobs.continue_last import continue_last
from headgate.flow.jobs.ensure import ensure
from headgate.flow.jobs.resolve import resolve_request
from headgate.flow.jobs.submit import JobRequest, submit_unchecked
from headgate.flow.jobs.submit_many import submit_many, validate
from headgate.flow.jobs.view import JobStatus, JobView, status_of, views_of
from headgate.flow.runtime import Runtime
from headgate.model.forecast import Forecast
from headgate.model.job import Job, JobEvent, Lane, Mode
from headgate.model.states import JobState
from headgate.ports.jobs.events import LastEvent
from headgate.ports.jobs.store import JobFilter
from headgate.ports.jobs.submission import SubmitOutcome, SubmitResult

LIST_MAX = 1000


def _to_request(request: JobRequest | str | None, fields: Mapping[str, Any]) -> JobRequest:
    """The request, or one of these fields; a text is the name of its sync."""
    unknown = next((name for name in fields if name not in JobRequest.__struct_fields__), None)
    if unknown is not None:
        names = ", ".join(JobRequest.__struct_fields__)
        raise InvalidInput(unknown, f"is no field of a job; there are: {names}")
    if isinstance(request, JobRequest):
        return replace(request, **fields)
    return JobRequest(**{"sync": request, **fields} if request is not None else fields)


class Jobs:
    """The jobs of an application. With a `user_id`, another user's jobs are NotFound."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application."""
        self._rt = rt

    async def submit(
        self, request: JobRequest | str | None = None, /, **fields: Any
    ) -> SubmitResult:
        """Submit a job: a request, or its fields as keywords; a text is the name of the sync.

        The connection is the user's own, found if there is only one. Raises before writing if
        anything is wrong, such as another user's connection, which is NotFound.
        """
        request = _to_request(request, fields)
        return await submit_unchecked(self._rt, await resolve_request(self._rt, request))

    async def forecast(self, request: JobRequest | str | None = None, /, **fields: Any) -> Forecast:
        """The forecast of a backfill: its requests, and when it would end; starts nothing."""
        return await forecast(self._rt, _to_request(request, fields))

    async def submit_many(self, requests: Iterable[JobRequest]) -> Sequence[SubmitOutcome]:
        """Submit many jobs; the outcomes are in the order of the requests.

        All requests are validated before anything is written: InvalidInput names the place and the
        field of one that is wrong. Connections are found and checked as by `submit`. A thousand
        jobs at a time are stored in one transaction, and two transactions at the same time; if one
        fails, no other is begun, and a call with the same keys goes on. The jobs of a user are
        stored in the order of their requests.
        """
        return await submit_many(self._rt, requests)

    def validate(self, request: JobRequest) -> None:
        """Raise InvalidInput if the request can never be carried out; nothing is read or written.

        It does not look whether there is a connection, or what the user's plan includes.
        """
        validate(self._rt, request)

    async def ensure(
        self, request: JobRequest | str | None = None, /, *, restart: bool = False, **fields: Any
    ) -> SubmitResult:
        """Submit a job, or make the active job of the sync and connection run again.

        Call it after storing new work for the job: a chunk begins after this call. With `restart`,
        a sleeping job starts from the beginning instead of its cursor. A connection whose user has
        to sign in again is no obstacle: the job says so.
        """
        request = await resolve_request(self._rt, _to_request(request, fields), signed_in=False)
        return await ensure(self._rt, request, restart=restart)

    async def continue_last(
        self,
        sync: str,
        *,
        user_id: str,
        connection_id: str | None = None,
        key: str | None = None,
        ignore: Callable[[Job], bool] = lambda job: False,
    ) -> SubmitResult:
        """Submit a job that goes on where the last one of the sync and connection stopped.

        The last job failed or was cancelled; the new one has its mode, parameters, checkpoint and
        counts. Jobs without a checkpoint, and those to `ignore`, are passed over. Raises
        IllegalTransition if there is nothing to continue. The connection is found as by `submit`.
        """
        request = JobRequest(sync=sync, user_id=user_id, connection_id=connection_id, key=key)
        resolved = await resolve_request(self._rt, request)
        return await continue_last(self._rt, resolved, ignore=ignore)

    async def get(self, job_id: str, *, user_id: str | None = None) -> Job:
        """The job."""
        return await self._rt.jobs.get(job_id, user_id=user_id)

    async def list(
        self,
        *,
        user_id: str | None = None,
        sync: str | None = None,
        connection_id: str | None = None,
        mode: Mode | None = None,
        states: Sequence[JobState] = (),
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Job]:
        """Jobs, newest first; for the next page, pass the last id as `before`."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        job_filter = JobFilter(
            user_id=user_id,
            sync=sync,
            connection_id=connection_id,
            mode=mode,
            states=tuple(states),
        )
        return await self._rt.jobs.list_jobs(job_filter, limit=limit, before=before)

    async def count(self) -> Mapping[str, Mapping[JobState, int]]:
        """How many jobs of each declared sync are in each state, zero included."""
        return await self._rt.jobs.count_jobs()

    async def oldest_due_s(self) -> Mapping[Lane, float]:
        """How many seconds the oldest due job of each lane has waited for a worker."""
        return await self._rt.jobs.oldest_due_s()

    async def open_breakers(self) -> Mapping[str, int]:
        """How many jobs an open breaker has paused, by the provider that failed."""
        return await self._rt.breakers.open_breakers()

    async def events(self, job_id: str, *, after: int = 0, limit: int = 200) -> Sequence[JobEvent]:
        """A job's events in order; for the next page, pass the last id as `after`."""
        return await self._rt.events.list_events(job_id, after=after, limit=limit)

    async def last_events(self, job_ids: Sequence[str]) -> Mapping[str, LastEvent]:
        """How far each of these jobs is, by its id: its last event's id, and its state.

        It does not check whose jobs they are.
        """
        return await self._rt.events.last_events(job_ids)

    async def pause(self, job_id: str, *, user_id: str | None = None) -> Job:
        """Pause the job until it is resumed; a running job stops at its next checkpoint."""
        return await control.pause(self._rt, job_id, user_id=user_id)

    async def resume(self, job_id: str, *, user_id: str | None = None) -> Job:
        """Resume the job from where it stopped."""
        return await control.resume(self._rt, job_id, user_id=user_id)

    async def retry_now(self, job_id: str, *, user_id: str | None = None) -> Job:
        """Run a paused or failed job again at once."""
        return await control.retry_now(self._rt, job_id, user_id=user_id)

    async def cancel(self, job_id: str, *, user_id: str | None = None) -> Job:
        """Cancel the job; a running job is `cancelling` until its worker stops."""
        return await control.cancel(self._rt, job_id, user_id=user_id)

    async def status(self, job_id: str, *, user_id: str | None = None) -> JobStatus:
        """The job's status: its view, its expected end and its gaps."""
        return await status_of(self._rt, job_id, user_id=user_id)

    async def view(self, job: Job) -> JobView:
        """The job as it is shown, with its messages for the user and for operators."""
        return (await self.views([job]))[0]

    async def views(self, jobs: Sequence[Job]) -> Sequence[JobView]:
        """The view of each of these jobs."""
        return await views_of(self._rt, jobs)
