"""Activities under /v1, and what an operator does about their streams.

Whose an activity is, is part of every question that the store is asked: one that is another's is
as if it were not there.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated

from fastapi import Body, Depends, Path, Query, Request
from starlette.responses import Response

from headgate import App, SubmitResult
from headgate.systems.activity_streams import webhooks
from headgate.systems.activity_streams.documents import (
    ActivityDocument,
    ActivityPage,
    StreamsDocument,
    StreamStatsDocument,
    SyncActivities,
    counted,
    line,
    shown,
)
from headgate.systems.activity_streams.names import ACTIVITY_LINK, ACTIVITY_PATH
from headgate.systems.activity_streams.service import ActivityStreams
from headgate.systems.activity_streams.serving import Selection, selection, served
from headgate.toolkit.api import responses
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import JobModel, LinkDocument, MakeLink, Name
from headgate.toolkit.api.jobs import ACCEPTED, NOT_MODIFIED, accepted_response
from headgate.toolkit.api.route import (
    IDEMPOTENT,
    IfNoneMatch,
    TheAdmin,
    TheApp,
    TheCaller,
    TheSite,
    get_problems,
    post_problems,
    router,
)

PAGE_MAX = 200
#: A connection's id and a number; others are NotFound without a look.
ActivityId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=300,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
        description="The activity.",
    ),
]
Selected = Annotated[Selection, Depends(selection)]

routes = router("", "Activities")


async def _activities(app: TheApp) -> ActivityStreams:
    return ActivityStreams(app)


TheActivities = Annotated[ActivityStreams, Depends(_activities)]


# ---- looking -----------------------------------------------------------------------------------


@routes.get(
    "/v1/activities",
    operation_id="list_activities",
    summary="List a user's activities",
    response_model=ActivityPage,
    responses=get_problems(),
)
async def list_activities(
    activities: TheActivities,
    caller: TheCaller,
    user_id: Annotated[Name | None, Query(description="An admin's key has to name one.")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")] = 50,
    after: Annotated[Name | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """In the order of their ids, each with where its streams stand."""
    owner = caller.require_user(user_id)
    found = await activities.list(user_id=owner, limit=limit + 1, after=after)
    page = [line(each) for each in found[:limit]]
    more = page[-1].id if len(found) > limit else None
    return responses.json_response(ActivityPage(data=page, next_cursor=more))


@routes.get(
    "/v1/activities/{activity_id}",
    operation_id="get_activity",
    summary="What is known of an activity",
    response_model=ActivityDocument,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def get_activity(
    request: Request,
    activities: TheActivities,
    caller: TheCaller,
    activity_id: ActivityId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """With where its streams stand; those have a path of their own."""
    return responses.etag_response(
        request, shown(await activities.find(activity_id, user_id=caller.owner))
    )


@routes.get(
    "/v1/activities/{activity_id}/streams",
    operation_id="get_activity_streams",
    summary="An activity's streams, or why there are none",
    response_model=StreamsDocument,
    responses={
        200: {
            "description": "The activity is there; `status` says whether its streams are.",
            "headers": {
                "ETag": {"description": "Of this very answer.", "schema": {"type": "string"}}
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
    """The whole is sent as it is stored where gzip is taken: to ask for less is not faster."""
    return served(request, await activities.streams(activity_id, user_id=caller.owner), wanted)


# ---- asking for more ---------------------------------------------------------------------------

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
    """Their streams are fetched with them, before all backfill."""
    return await _submitted(request, app, caller, activities.sync_now, body)


@routes.post(
    "/v1/activities/backfill",
    operation_id="backfill_activities",
    summary="Fetch the streams of everything",
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
    """The oldest first, with what live work leaves of the provider's limits."""
    return await _submitted(request, app, caller, activities.backfill, body)


async def _submitted(
    request: Request,
    app: App,
    caller: Caller,
    submit: Callable[..., Awaitable[SubmitResult]],
    body: SyncActivities | None,
) -> Response:
    asked = body or SyncActivities()
    user_id = caller.require_user(asked.user_id)
    submitted = await submit(user_id=user_id, connection_id=asked.connection_id)
    return await accepted_response(request, app, caller, submitted.job)


@routes.post(
    "/v1/activities/{activity_id}/link",
    operation_id="make_activity_link",
    summary="A link to the page that shows an activity to its user",
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
    return responses.secret_response(LinkDocument(url=url, expires_at=made.expires_at))


# ---- operating ---------------------------------------------------------------------------------


async def _reset(caller: TheAdmin, activities: TheActivities, activity_id: ActivityId) -> Response:
    """With a clean sheet: whoever holds it is shut out, and what was fetched is fetched anew."""
    await activities.reset(activity_id)
    return responses.json_response(shown(await activities.find(activity_id)))


#: The second is the path of the specification.
for _path, _id in (
    ("/v1/admin/activities/{activity_id}/reset-stream-fetch", "reset_activity_streams"),
    ("/admin/activities/{activity_id}/reset-stream-fetch", "reset_stream_fetch"),
):
    routes.post(
        _path,
        operation_id=_id,
        summary="Fetch an activity's streams afresh",
        response_model=ActivityDocument,
        dependencies=[IDEMPOTENT],
        responses=post_problems("not_found", "illegal_transition", "conflict"),
    )(_reset)


@routes.get(
    "/v1/admin/streams/stats",
    operation_id="get_stream_stats",
    summary="How the streams of everybody stand",
    response_model=StreamStatsDocument,
    responses=get_problems(),
)
async def stats(
    caller: TheAdmin,
    activities: TheActivities,
    user_id: Annotated[Name | None, Query(description="With this user's progress.")] = None,
) -> Response:
    """By state, by failures, and how much of the provider's limits is used."""
    return responses.json_response(counted(await activities.stats(user_id=user_id)))


routes.include_router(webhooks.routes)
