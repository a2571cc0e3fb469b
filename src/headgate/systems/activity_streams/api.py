"""The API for activities, under /v1/activities, and for operators of their streams.

Every query to the store names the user, so another user's activity is not found.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated

from fastapi import Body, Depends, Path, Query, Request
from starlette.responses import Response

from headgate import App
from headgate.systems.activity_streams import webhooks
from headgate.systems.activity_streams.documents import (
    ActivityModel,
    ActivityPageModel,
    StreamsDocument,
    StreamStatsModel,
    SyncActivities,
    to_activity_document,
    to_activity_line,
)
from headgate.systems.activity_streams.names import ACTIVITY_LINK, ACTIVITY_PATH
from headgate.systems.activity_streams.service import ActivityStreams
from headgate.systems.activity_streams.serving import Selection, parse_selection, streams_response
from headgate.toolkit import page_of
from headgate.toolkit.api import (
    ACCEPTED,
    IDEMPOTENT,
    NOT_MODIFIED,
    Caller,
    IfNoneMatch,
    JobModel,
    LinkDocument,
    MakeLink,
    Name,
    TheAdmin,
    TheApp,
    TheCaller,
    TheSite,
    accepted_response,
    etag_response,
    get_problems,
    json_response,
    post_problems,
    router,
    secret_response,
)
from headgate.types import SubmitResult

PAGE_MAX = 200
#: A connection's id and a number; an id of another form is NotFound without a query.
ActivityId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=300,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
        description="The activity.",
    ),
]
Selected = Annotated[Selection, Depends(parse_selection)]

routes = router("", "Activities")


async def _activities(app: TheApp) -> ActivityStreams:
    return ActivityStreams(app)


TheActivities = Annotated[ActivityStreams, Depends(_activities)]


# ---- looking -----------------------------------------------------------------------------------


@routes.get(
    "/v1/activities",
    operation_id="list_activities",
    summary="List a user's activities",
    response_model=ActivityPageModel,
    responses=get_problems(),
)
async def list_activities(
    activities: TheActivities,
    caller: TheCaller,
    user_id: Annotated[Name | None, Query(description="An admin's key has to name one.")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")] = 50,
    after: Annotated[Name | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """Lists them in the order of their ids, each with the state of its streams."""
    owner = caller.require_user(user_id)
    found = await activities.list(user_id=owner, limit=limit + 1, after=after)
    return json_response(page_of([to_activity_line(each) for each in found], limit))


@routes.get(
    "/v1/activities/{activity_id}",
    operation_id="get_activity",
    summary="Get an activity",
    response_model=ActivityModel,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def get_activity(
    request: Request,
    activities: TheActivities,
    caller: TheCaller,
    activity_id: ActivityId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Shows its details and the state of its streams, which have a path of their own."""
    return etag_response(
        request, to_activity_document(await activities.find(activity_id, user_id=caller.owner))
    )


@routes.get(
    "/v1/activities/{activity_id}/streams",
    operation_id="get_activity_streams",
    summary="Get an activity's streams, or why there are none",
    response_model=StreamsDocument,
    responses={
        200: {
            "description": "The activity exists; `status` says whether its streams do.",
            "headers": {
                "ETag": {
                    "description": "The version of the document.",
                    "schema": {"type": "string"},
                }
            },
        },
        **NOT_MODIFIED,
        **get_problems("not_found"),
    },
)
async def get_streams(
    request: Request,
    activities: TheActivities,
    caller: TheCaller,
    activity_id: ActivityId,
    wanted: Selected,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """With gzip, all streams are sent as they are stored: selecting some is not faster."""
    return streams_response(
        request, await activities.streams(activity_id, user_id=caller.owner), wanted
    )


# ---- syncing -----------------------------------------------------------------------------------

_SUBMITS = ("plan_required", "active_job_exists", "not_connected", "not_found")


@routes.post(
    "/v1/activities/sync",
    operation_id="sync_activities",
    summary="Look for new activities now",
    status_code=202,
    response_model=JobModel,
    dependencies=[IDEMPOTENT],
    responses={**ACCEPTED, **post_problems(*_SUBMITS)},
)
async def sync(
    request: Request,
    app: TheApp,
    activities: TheActivities,
    caller: TheCaller,
    body: Annotated[SyncActivities | None, Body()] = None,
) -> Response:
    """Their streams are fetched too, before those of any backfill."""
    return await _submit(request, app, caller, activities.sync_now, body)


@routes.post(
    "/v1/activities/backfill",
    operation_id="backfill_activities",
    summary="Fetch the streams of all activities",
    status_code=202,
    response_model=JobModel,
    dependencies=[IDEMPOTENT],
    responses={**ACCEPTED, **post_problems(*_SUBMITS)},
)
async def backfill(
    request: Request,
    app: TheApp,
    activities: TheActivities,
    caller: TheCaller,
    body: Annotated[SyncActivities | None, Body()] = None,
) -> Response:
    """The oldest come first, with what live work leaves of the provider's limits."""
    return await _submit(request, app, caller, activities.backfill, body)


async def _submit(
    request: Request,
    app: App,
    caller: Caller,
    submit: Callable[..., Awaitable[SubmitResult]],
    body: SyncActivities | None,
) -> Response:
    wanted = body or SyncActivities()
    user_id = caller.require_user(wanted.user_id)
    submitted = await submit(user_id=user_id, connection_id=wanted.connection_id)
    return await accepted_response(request, app, caller, submitted.job)


@routes.post(
    "/v1/activities/{activity_id}/link",
    operation_id="make_activity_link",
    summary="Make a link to the page that shows an activity to its user",
    response_model=LinkDocument,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def link(
    site: TheSite,
    activities: TheActivities,
    caller: TheCaller,
    activity_id: ActivityId,
    body: Annotated[MakeLink | None, Body()] = None,
) -> Response:
    """Whoever has the link may look at the activity, without a login."""
    item = (await activities.find(activity_id, user_id=caller.owner)).item
    ttl = timedelta(hours=(body or MakeLink()).ttl_hours)
    token = site.links.page_token(ACTIVITY_LINK, item.id, user_id=item.user_id, ttl=ttl)
    made = site.links.open_page(ACTIVITY_LINK, token)
    url = f"{site.public_url}{ACTIVITY_PATH}{token}"
    return secret_response(LinkDocument(url=url, expires_at=made.expires_at))


# ---- operating ---------------------------------------------------------------------------------


async def _reset(caller: TheAdmin, activities: TheActivities, activity_id: ActivityId) -> Response:
    """Clears its attempts, takes it from the worker that claimed it, and fetches it again."""
    await activities.reset(activity_id)
    return json_response(to_activity_document(await activities.find(activity_id)))


#: The second path is that of the specification.
for _path, _id in (
    ("/v1/admin/activities/{activity_id}/reset-stream-fetch", "reset_activity_streams"),
    ("/admin/activities/{activity_id}/reset-stream-fetch", "reset_stream_fetch"),
):
    routes.post(
        _path,
        operation_id=_id,
        summary="Fetch an activity's streams afresh",
        response_model=ActivityModel,
        dependencies=[IDEMPOTENT],
        responses=post_problems("not_found", "not_connected", "illegal_transition", "conflict"),
    )(_reset)


@routes.get(
    "/v1/admin/streams/stats",
    operation_id="get_stream_stats",
    summary="Count the streams of all users, by state",
    response_model=StreamStatsModel,
    responses=get_problems(),
)
async def stream_stats(
    caller: TheAdmin,
    activities: TheActivities,
    user_id: Annotated[Name | None, Query(description="Also count this user's streams.")] = None,
) -> Response:
    """Counts the streams of all users, and shows the use of the provider's limits."""
    return json_response(await activities.stats(user_id=user_id))


routes.include_router(webhooks.routes)
