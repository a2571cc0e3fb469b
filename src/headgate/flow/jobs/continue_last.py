"""Continuing an unfinished job: a new job that begins where the last one stopped.

A retry sets a failed job going again, and a cancelled job has ended for good. This is for both: the
new job has its own id and its own events, and takes over what was asked for and the checkpoint.
"""

from collections.abc import Callable

import msgspec

from headgate.base.errors import ActiveJobExists, IllegalTransition, InvalidInput
from headgate.flow.jobs.submit import (
    JobRequest,
    check,
    check_connection,
    check_entitlement,
    store_new,
)
from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.model.job import Job, Mode, Summary
from headgate.model.states import JobState
from headgate.ports.jobs.store import JobFilter
from headgate.ports.jobs.submission import NewJob, SubmitResult

#: How many jobs are passed over, at most, that have nothing to continue.
LOOK_BACK_MAX = 100


async def continue_last(
    rt: Runtime, request: JobRequest, *, ignore: Callable[[Job], bool] = lambda job: False
) -> SubmitResult:
    """Submit a job that goes on at the checkpoint of the last job of its sync and connection.

    It has the mode and the parameters of that job; those in the request are only a key and the
    connections. Jobs that ended before their first checkpoint are passed over, and those that the
    caller wants to `ignore`. Raises ActiveJobExists if a job has not ended, and IllegalTransition
    if there is nothing to continue.
    """
    sync = rt.registry.get(request.sync)
    last = await _unfinished_job(rt, sync, request, ignore)
    again = msgspec.structs.replace(
        request,
        mode=last.mode,
        lane=last.lane,
        since=last.params.since,
        limit=last.params.limit,
        options=last.params.options,
    )
    checked = check(again, sync, job_id=rt.ids.new("job"), now=rt.clock.now())
    await check_entitlement(rt, checked)
    return await store_new(rt, _from_checkpoint(checked, last))


async def _unfinished_job(
    rt: Runtime, sync: Sync, request: JobRequest, ignore: Callable[[Job], bool]
) -> Job:
    job_filter = JobFilter(
        user_id=request.user_id, sync=sync.name, connection_id=check_connection(request, sync)
    )
    for job in await rt.jobs.list_jobs(job_filter, limit=LOOK_BACK_MAX):
        if request.key is not None and job.key == request.key:
            # The request was sent before; the job that it made is the answer, by its key.
            return job
        if not job.ended:
            raise ActiveJobExists(job.id)
        if job.mode is Mode.HISTORY:
            raise InvalidInput("sync", "a backfill is continued by starting it again")
        if ignore(job):
            continue
        if job.state is JobState.SUCCESS:
            raise IllegalTransition(f"there is nothing to continue: the last, {job.id}, succeeded")
        if job.cursor is not None:
            return job
    raise IllegalTransition("there is nothing to continue: no job has reached a checkpoint")


def _from_checkpoint(new: NewJob, last: Job) -> NewJob:
    """The new job at the checkpoint of the last one, with its counts so far."""
    return msgspec.structs.replace(
        new,
        cursor=last.cursor,
        progress=last.progress,
        high_water=last.high_water,
        # A refused record holds the mark back in the new job too.
        summary=Summary(counts=last.summary.counts, refused=last.summary.refused),
    )
