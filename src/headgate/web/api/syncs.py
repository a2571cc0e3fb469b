"""The API for syncs, under /v1/syncs: start a job in any mode that a sync declares."""

from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from headgate.flow.jobs.submit import ID_LENGTH_MAX
from headgate.toolkit.api.documents import JobModel, StartSync, job_request
from headgate.toolkit.api.jobs import ACCEPTED, accepted_response
from headgate.toolkit.api.route import IDEMPOTENT, JobKey, TheApp, TheCaller, post_problems, router

SyncName = Annotated[str, Path(alias="name", max_length=ID_LENGTH_MAX, description="The sync.")]


routes = router("/v1/syncs", "Syncs")


@routes.post(
    "/{name}/jobs",
    operation_id="start_sync_job",
    summary="Start a job of a sync, in any mode",
    status_code=202,
    response_model=JobModel,
    dependencies=[IDEMPOTENT],
    responses={
        **ACCEPTED,
        **post_problems(
            "unknown_sync", "plan_required", "active_job_exists", "not_connected", "not_found"
        ),
    },
)
async def start(
    request: Request, app: TheApp, caller: TheCaller, key: JobKey, name: SyncName, body: StartSync
) -> Response:
    """The mode decides: read everything, what changed, a number of records, or a range of days."""
    user_id = caller.require_user(body.user_id)
    wanted = job_request(body, sync=name, user_id=user_id, key=key)
    job = (await app.jobs.submit(wanted)).job
    return await accepted_response(request, app, caller, job)
