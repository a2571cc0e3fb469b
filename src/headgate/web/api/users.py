"""The API for users, under /v1/users: plans, logins, preferences, and pauses of schedules."""

from typing import Annotated, Any

from fastapi import Body, Path, Query, Request
from pydantic import BaseModel, Field, StrictBool
from starlette.responses import Response, StreamingResponse

from headgate.base.encoding import to_json
from headgate.base.errors import NotFound
from headgate.flow.users.service import PLAN_LENGTH_MAX, REASON_LENGTH_MAX
from headgate.flow.users.view import ErasureView, UserView, erasure_view, user_view
from headgate.model.user import EMAIL_LENGTH_MAX, ZONE_LENGTH_MAX, Frequency, Preferences, User
from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name, request_config, view_for_caller
from headgate.toolkit.api.jobs import NOT_MODIFIED
from headgate.toolkit.api.models import model_of, page_model
from headgate.toolkit.api.route import (
    IDEMPOTENT,
    IfNoneMatch,
    TheAdmin,
    TheApp,
    TheCaller,
    get_problems,
    post_problems,
    router,
    write_problems,
)
from headgate.toolkit.paging import page_of

PAGE_MAX = 200
JSON_LINES = "application/jsonl"
_BY_DEFAULT = Preferences()
#: So many batches are deleted while the caller waits; the workers delete what is left.
ERASED_AT_ONCE = 20
UserId = Annotated[Name, Path(description="The user.")]

routes = router("/v1/users", "Users")


class SetPlan(BaseModel):
    """The new plan of a user."""

    model_config = request_config(examples.PLAN)

    plan: Name = Field(max_length=PLAN_LENGTH_MAX)


class SetPreferences(BaseModel):
    """The preferences to change; what is left out stays as it is."""

    model_config = request_config(examples.SET_PREFERENCES)

    # With a factory: a default in the document would read as what is set if it is left out.
    frequency: Frequency = Field(default_factory=lambda: _BY_DEFAULT.frequency)
    time: str | None = Field(
        default_factory=lambda: _BY_DEFAULT.time,
        max_length=5,
        description="A time of day in the user's zone, as HH:MM; null: the schedule's own time.",
    )
    zone: str = Field(
        default_factory=lambda: _BY_DEFAULT.zone,
        max_length=ZONE_LENGTH_MAX,
        description="The IANA name of a time zone.",
    )
    email: str | None = Field(
        default_factory=lambda: _BY_DEFAULT.email,
        max_length=EMAIL_LENGTH_MAX,
        description="Where notifications go; null: nowhere.",
    )
    notify: StrictBool = Field(
        default_factory=lambda: _BY_DEFAULT.notify,
        description="false: the user gets no notifications.",
    )


class PauseUser(BaseModel):
    """Why the user's schedules are paused."""

    model_config = request_config(examples.PAUSE_USER)

    reason: Name | None = Field(
        default=None, max_length=REASON_LENGTH_MAX, description="The user can read it too."
    )


UserModel = model_of(UserView, examples.USER)
UserPageModel = page_model("UserPage", "Users, in the order of their ids.", UserView, examples.USER)
ErasureModel = model_of(ErasureView, examples.ERASURE)


def _own(caller: Caller, user_id: str) -> str:
    """Return the id of a user whom the caller may act for; any other is as if not there."""
    if caller.owner not in (None, user_id):
        raise NotFound(f"there is no user {user_id!r}")
    return user_id


def _response(user: User, caller: Caller) -> Response:
    return responses.json_response(view_for_caller(user_view(user), caller))


@routes.get(
    "",
    operation_id="list_users",
    summary="List all users",
    response_model=UserPageModel,
    responses=get_problems(),
)
async def list_users(
    app: TheApp,
    caller: TheAdmin,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")] = 50,
    after: Annotated[Name | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """Lists those who have connected, and those that the application has told of."""
    found = await app.users.list(limit=limit + 1, after=after)
    return responses.json_response(page_of([user_view(each) for each in found], limit))


@routes.get(
    "/{user_id}",
    operation_id="get_user",
    summary="Get a user",
    response_model=UserModel,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def get_user(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    user_id: UserId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """To look at a user is no login of theirs."""
    user = await app.users.get(_own(caller, user_id))
    return responses.etag_response(request, view_for_caller(user_view(user), caller))


@routes.put(
    "/{user_id}",
    operation_id="set_user_plan",
    summary="Set a user's plan",
    response_model=UserModel,
    responses=write_problems("not_found"),
)
async def set_plan(app: TheApp, caller: TheAdmin, user_id: UserId, body: SetPlan) -> Response:
    """The application decides what a plan includes."""
    user = await app.users.set_plan(user_id, body.plan)
    return _response(user, caller)


@routes.post(
    "/{user_id}/seen",
    operation_id="see_user",
    summary="Say that a user is here in person",
    response_model=UserModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def seen(app: TheApp, caller: TheCaller, user_id: UserId) -> Response:
    """Call it when the user logs in to your application. It is written at most once an hour."""
    await app.users.seen(_own(caller, user_id))
    return _response(await app.users.get(user_id), caller)


@routes.patch(
    "/{user_id}/preferences",
    operation_id="set_user_preferences",
    summary="Change a user's preferences",
    response_model=UserModel,
    responses=write_problems("not_found"),
)
async def set_preferences(
    app: TheApp, caller: TheCaller, user_id: UserId, body: SetPreferences
) -> Response:
    """Changes the fields that are sent, and no others."""
    changes: dict[str, Any] = {name: getattr(body, name) for name in body.model_fields_set}
    user = await app.users.set_preferences(_own(caller, user_id), **changes)
    return _response(user, caller)


@routes.post(
    "/{user_id}/pause",
    operation_id="pause_user",
    summary="Pause a user's schedules",
    response_model=UserModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def pause(
    app: TheApp,
    caller: TheCaller,
    user_id: UserId,
    body: Annotated[PauseUser | None, Body()] = None,
) -> Response:
    """Schedules skip the user; jobs that somebody starts run as before."""
    reason = None if body is None else body.reason
    user = await app.users.pause(_own(caller, user_id), by=caller.name, reason=reason)
    return _response(user, caller)


@routes.post(
    "/{user_id}/resume",
    operation_id="resume_user",
    summary="Resume a user's schedules",
    response_model=UserModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def resume(app: TheApp, caller: TheCaller, user_id: UserId) -> Response:
    """Schedules serve the user again from their next run on."""
    user = await app.users.resume(_own(caller, user_id), by=caller.name)
    return _response(user, caller)


@routes.delete(
    "/{user_id}",
    operation_id="forget_user",
    summary="Erase a user",
    response_model=ErasureModel,
    responses=write_problems("not_found"),
)
async def forget(app: TheApp, caller: TheAdmin, user_id: UserId) -> Response:
    """Ends the user's jobs, revokes their authorizations, and deletes all that is stored of them.

    It cannot be undone. If there is much to delete, `finished` is false, and the workers go on;
    the same request again says how far it is.
    """
    erasure = await app.users.forget(user_id, by=caller.name, batches_max=ERASED_AT_ONCE)
    return responses.json_response(erasure_view(erasure, unreached=app.unstarted))


@routes.get(
    "/{user_id}/export",
    operation_id="export_user",
    summary="Export all that is stored of a user",
    response_class=StreamingResponse,
    responses={
        200: {"description": "JSON Lines.", "content": {JSON_LINES: examples.USER_EXPORT}},
        **get_problems("not_found"),
    },
)
async def export(app: TheApp, caller: TheAdmin, user_id: UserId) -> Response:
    """Each line is a JSON object with its `type`, without secrets; none if nothing is stored."""
    lines = (f"{to_json(row)}\n".encode() async for row in app.users.export(user_id))
    return StreamingResponse(lines, media_type=JSON_LINES)
