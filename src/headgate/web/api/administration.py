"""The API for admins: users' plans, and the use of the budgets."""

from datetime import datetime
from typing import Annotated

import msgspec
from fastapi import Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate.flow.users import PLAN_LENGTH_MAX
from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.budgets import WindowDocument
from headgate.toolkit.api.documents import Name, request_config, response_config
from headgate.toolkit.api.route import TheAdmin, TheApp, get_problems, router, write_problems

UserId = Annotated[Name, Path(description="The user.")]

routes = router("/v1", "Administration")


class SetPlan(BaseModel):
    """The new plan of a user."""

    model_config = request_config(examples.PLAN)

    plan: Name = Field(max_length=PLAN_LENGTH_MAX)


class UserDocument(BaseModel):
    """A user and their plan."""

    model_config = response_config(examples.USER)

    id: str
    plan: str | None = Field(description="null if none was set.")


class BudgetDocument(BaseModel):
    """The use of a provider's budget."""

    model_config = response_config(examples.BUDGET)

    source: str
    connection_id: str | None = Field(description="null: of the whole application.")
    windows: list[WindowDocument]
    closed_until: datetime | None
    next_cold_at: datetime | None
    slots_used: int
    slots: int | None
    refused_24h: dict[str, int]
    answers_429_24h: int


class BudgetList(BaseModel):
    """Every declared budget."""

    model_config = response_config({"data": [examples.BUDGET]})

    data: list[BudgetDocument]


@routes.get(
    "/users/{user_id}",
    operation_id="get_user",
    summary="A user's plan",
    response_model=UserDocument,
    responses=get_problems("not_found"),
)
async def get_user(app: TheApp, caller: TheAdmin, user_id: UserId) -> Response:
    """A user that Headgate does not know yet has no plan."""
    plan = await app.users.plan_of(user_id)
    return responses.json_response(UserDocument(id=user_id, plan=plan))


@routes.put(
    "/users/{user_id}",
    operation_id="set_user_plan",
    summary="Set a user's plan",
    response_model=UserDocument,
    responses=write_problems("not_found"),
)
async def set_user(app: TheApp, caller: TheAdmin, user_id: UserId, body: SetPlan) -> Response:
    """The application decides what a plan includes."""
    await app.users.set_plan(user_id, body.plan)
    return responses.json_response(UserDocument(id=user_id, plan=body.plan))


@routes.get(
    "/budgets",
    operation_id="list_budgets",
    summary="The use of the providers' budgets",
    response_model=BudgetList,
    responses=get_problems(),
)
async def budgets(app: TheApp, caller: TheAdmin) -> Response:
    """What is used, what is left, and what is reserved for live work."""
    uses = [
        msgspec.to_builtins(each, builtin_types=(datetime,)) for each in await app.budgets.use()
    ]
    return responses.json_response(BudgetList(data=[BudgetDocument(**each) for each in uses]))
