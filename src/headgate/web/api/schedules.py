"""The API for schedules, under /v1/schedules, for admins: plans, runs, pauses and history."""

from typing import Annotated

from fastapi import Body, Path, Query
from pydantic import BaseModel, Field, StrictBool
from starlette.responses import Response

from headgate.flow.schedules.service import HISTORY_DAYS, HISTORY_DAYS_MAX, REASON_LENGTH_MAX
from headgate.flow.schedules.view import (
    PlanView,
    ScheduleHistory,
    ScheduleView,
    TickUserView,
)
from headgate.model.schedule import SkipReason, Tick
from headgate.toolkit.api import responses
from headgate.toolkit.api.documents import Name, Time, request_config
from headgate.toolkit.api.jobs import After, Limit
from headgate.toolkit.api.models import list_model, model_of, page_model
from headgate.toolkit.api.route import (
    IDEMPOTENT,
    TheAdmin,
    TheApp,
    get_problems,
    post_problems,
    router,
)
from headgate.toolkit.paging import page_of
from headgate.web.api import schedule_examples as examples

ScheduleName = Annotated[Name, Path(alias="name", description="The schedule.")]
TickTime = Annotated[Time, Path(alias="tick", description="The time of the tick, with its zone.")]

ScheduleModel = model_of(ScheduleView, examples.SCHEDULE)
ScheduleListModel = list_model(
    "ScheduleList", "Every declared schedule.", ScheduleView, examples.SCHEDULE
)
PlanModel = model_of(PlanView, examples.PLAN)
TickModel = model_of(Tick, examples.TICK)
TickPageModel = page_model(
    "TickPage", "Ticks that have fired, the latest first.", Tick, examples.TICK
)
TickUserPageModel = page_model(
    "TickUserPage",
    "What a tick meant for each connection, in the order of their ids.",
    TickUserView,
    *examples.TICK_USERS,
)
HistoryModel = model_of(ScheduleHistory, examples.HISTORY)

routes = router("/v1/schedules", "Schedules")


class PauseSchedule(BaseModel):
    """Why the schedule is paused."""

    model_config = request_config(examples.PAUSE)

    reason: Name | None = Field(
        default=None, max_length=REASON_LENGTH_MAX, description="For whoever looks at it later."
    )


class RunSchedule(BaseModel):
    """Nothing has to be said; what is not known is refused, and not ignored."""

    model_config = request_config({})


@routes.get(
    "",
    operation_id="list_schedules",
    summary="List all schedules",
    response_model=ScheduleListModel,
    responses=get_problems(),
)
async def list_schedules(app: TheApp, caller: TheAdmin) -> Response:
    """Each with its definition, its next tick, and whether it is paused."""
    return responses.json_response({"data": await app.schedules.list()})


@routes.get(
    "/{name}",
    operation_id="get_schedule",
    summary="Get a schedule",
    response_model=ScheduleModel,
    responses=get_problems("not_found"),
)
async def get_schedule(app: TheApp, caller: TheAdmin, name: ScheduleName) -> Response:
    """With its next five ticks."""
    return responses.json_response(await app.schedules.get(name))


@routes.get(
    "/{name}/plan",
    operation_id="plan_schedule",
    summary="Plan the next tick of a schedule",
    response_model=PlanModel,
    responses=get_problems("not_found"),
)
async def plan(
    app: TheApp,
    caller: TheAdmin,
    name: ScheduleName,
    now: Annotated[StrictBool, Query(description="Plan a run now instead.", strict=False)] = False,
    limit: Limit = 50,
) -> Response:
    """Who would get a job and when, who would not and why. Nothing is started."""
    return responses.json_response(await app.schedules.plan(name, now=now, limit=limit))


@routes.post(
    "/{name}/run",
    operation_id="run_schedule",
    summary="Give a job to every active user now",
    status_code=202,
    response_model=TickModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found", "conflict"),
)
async def run(
    app: TheApp,
    caller: TheAdmin,
    name: ScheduleName,
    body: Annotated[RunSchedule | None, Body()] = None,
) -> Response:
    """The schedule's own ticks stay as they are. It also works while the schedule is paused.

    To see what it would do, get `/v1/schedules/{name}/plan?now=true`.
    """
    tick = await app.schedules.run_now(name, by=caller.name)
    return responses.json_response(tick, status=202)


@routes.post(
    "/{name}/pause",
    operation_id="pause_schedule",
    summary="Pause a schedule",
    response_model=ScheduleModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def pause(
    app: TheApp,
    caller: TheAdmin,
    name: ScheduleName,
    body: Annotated[PauseSchedule | None, Body()] = None,
) -> Response:
    """Nothing fires until it is resumed. Jobs that were queued before run as planned."""
    reason = None if body is None else body.reason
    paused = await app.schedules.pause(name, by=caller.name, reason=reason)
    return responses.json_response(paused)


@routes.post(
    "/{name}/resume",
    operation_id="resume_schedule",
    summary="Resume a schedule",
    response_model=ScheduleModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def resume(app: TheApp, caller: TheAdmin, name: ScheduleName) -> Response:
    """It goes on with its next tick; what it would have fired meanwhile does not fire."""
    return responses.json_response(await app.schedules.resume(name, by=caller.name))


@routes.get(
    "/{name}/history",
    operation_id="get_schedule_history",
    summary="The last days of a schedule",
    response_model=HistoryModel,
    responses=get_problems("not_found"),
)
async def history(
    app: TheApp,
    caller: TheAdmin,
    name: ScheduleName,
    days: Annotated[
        int, Query(ge=1, le=HISTORY_DAYS_MAX, description="How many days, today included.")
    ] = HISTORY_DAYS,
) -> Response:
    """Jobs queued, succeeded and failed each day, users skipped, and users who keep failing."""
    return responses.json_response(await app.schedules.history(name, days=days))


@routes.get(
    "/{name}/ticks",
    operation_id="list_ticks",
    summary="List the ticks of a schedule, the latest first",
    response_model=TickPageModel,
    responses=get_problems("not_found"),
)
async def ticks(
    app: TheApp,
    caller: TheAdmin,
    name: ScheduleName,
    limit: Limit = 50,
    after: Annotated[Time | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """Those that fired by themselves, and those that somebody asked for."""
    found = await app.schedules.ticks(name, limit=limit + 1, before=after)
    page = page_of(found, limit, cursor=lambda each: each.tick.isoformat())
    return responses.json_response(page)


@routes.get(
    "/{name}/ticks/{tick}/users",
    operation_id="list_tick_users",
    summary="What a tick meant for each user",
    response_model=TickUserPageModel,
    responses=get_problems("not_found"),
)
async def tick_users(
    app: TheApp,
    caller: TheAdmin,
    name: ScheduleName,
    tick: TickTime,
    reason: Annotated[
        list[SkipReason] | None, Query(description="Only users skipped for one of these.")
    ] = None,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """The job that each connection got, or the reason why it got none."""
    found = await app.schedules.tick_users(
        name, tick, reasons=reason or (), limit=limit + 1, after=after
    )
    page = page_of(found, limit, cursor=lambda each: each.connection_id)
    return responses.json_response(page)
