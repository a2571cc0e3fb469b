"""The API for check-ins, under /v1/check-ins. Every query to the store names the user."""

from typing import Annotated

from fastapi import Body, Path, Query, Request
from starlette.responses import Response

from headgate.systems.daily_checkins.documents import (
    CheckInModel,
    CheckInPageModel,
    ImportStatusModel,
    StartImport,
)
from headgate.systems.daily_checkins.service import CheckIns, cursor_of
from headgate.toolkit import page_of
from headgate.toolkit.api import (
    ACCEPTED,
    IDEMPOTENT,
    NOT_MODIFIED,
    IfNoneMatch,
    JobKey,
    JobModel,
    Limit,
    Name,
    TheApp,
    TheCaller,
    accepted_response,
    etag_response,
    get_problems,
    json_response,
    post_problems,
    router,
)

#: Longer than the longest id with its time.
_CURSOR_LENGTH_MAX = 300
CheckInId = Annotated[Name, Path(description="The check-in.")]
TheUser = Annotated[Name | None, Query(description="An admin's key has to name one.")]

routes = router("/v1/check-ins", "Check-ins")


@routes.get(
    "",
    operation_id="list_check_ins",
    summary="List a user's check-ins",
    response_model=CheckInPageModel,
    responses=get_problems(),
)
async def list_check_ins(
    app: TheApp,
    caller: TheCaller,
    user_id: TheUser = None,
    limit: Limit = 50,
    after: Annotated[
        str | None,
        Query(max_length=_CURSOR_LENGTH_MAX, description="`next_cursor` of the page before."),
    ] = None,
) -> Response:
    """Lists them, the newest first."""
    owner = caller.require_user(user_id)
    found = await CheckIns(app).list(user_id=owner, limit=limit + 1, before=after)
    return json_response(page_of(found, limit, cursor=cursor_of))


@routes.post(
    "/import",
    operation_id="import_check_ins",
    summary="Import a user's new check-ins now",
    status_code=202,
    response_model=JobModel,
    dependencies=[IDEMPOTENT],
    responses={
        **ACCEPTED,
        **post_problems("plan_required", "active_job_exists", "not_connected", "not_found"),
    },
)
async def import_check_ins(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    key: JobKey,
    body: Annotated[StartImport | None, Body()] = None,
) -> Response:
    """The schedule does the same. An import that is active is left alone: it is `job_id` then."""
    wanted = body or StartImport()
    submitted = await CheckIns(app).start_import(
        user_id=caller.require_user(wanted.user_id),
        connection_id=wanted.connection_id,
        full=wanted.full,
        key=key,
    )
    return await accepted_response(request, app, caller, submitted.job)


@routes.get(
    "/import",
    operation_id="get_check_in_import",
    summary="Get how far a user's check-ins are imported",
    response_model=ImportStatusModel,
    responses={**NOT_MODIFIED, **get_problems()},
)
async def get_import(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    user_id: TheUser = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """How many there are, and what the last import did; `/v1/jobs/{id}` has all of that job."""
    status = await CheckIns(app).status(user_id=caller.require_user(user_id))
    return etag_response(request, status)


@routes.get(
    "/{check_in_id}",
    operation_id="get_check_in",
    summary="Get a check-in",
    response_model=CheckInModel,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def get_check_in(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    check_in_id: CheckInId,
    user_id: TheUser = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Shows it with everything that Foursquare says of it."""
    owner = caller.require_user(user_id)
    return etag_response(request, await CheckIns(app).get(check_in_id, user_id=owner))
