"""What only an admin's key may do: users' plans, and how the budgets stand."""

from datetime import datetime
from typing import Annotated

import msgspec
from fastapi import Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate.flow.users import PLAN_LENGTH_MAX
from headgate.toolkit.api import examples
from headgate.toolkit.api import responses as answers
from headgate.toolkit.api.budgets import WindowDocument
from headgate.toolkit.api.documents import Name, shows, takes
from headgate.toolkit.api.route import TheAdmin, TheApp, reads, router, writes

UserId = Annotated[Name, Path(description="The user.")]

routes = router("/v1", "Administration")


class SetPlan(BaseModel):
    """The plan that a user has from now on."""

    model_config = takes(examples.PLAN)

    plan: Name = Field(max_length=PLAN_LENGTH_MAX)


class UserDocument(BaseModel):
    """What is known of a user."""

    model_config = shows(examples.USER)

    id: str
    plan: str | None = Field(description="null where none was set.")


class BudgetDocument(BaseModel):
    """How a provider's budget stands."""

    model_config = shows(examples.BUDGET)

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

    model_config = shows({"data": [examples.BUDGET]})

    data: list[BudgetDocument]


@routes.get(
    "/users/{user_id}",
    operation_id="get_user",
    summary="A user's plan",
    response_model=UserDocument,
    responses=reads("not_found"),
)
async def get_user(app: TheApp, caller: TheAdmin, user_id: UserId) -> Response:
    """Who was never told of has no plan."""
    plan = await app.users.plan_of(user_id)
    return answers.document(UserDocument(id=user_id, plan=plan))


@routes.put(
    "/users/{user_id}",
    operation_id="set_user_plan",
    summary="Set a user's plan",
    response_model=UserDocument,
    responses=writes("not_found"),
)
async def set_user(app: TheApp, caller: TheAdmin, user_id: UserId, body: SetPlan) -> Response:
    """What the plan includes is the application's to say."""
    await app.users.set_plan(user_id, body.plan)
    return answers.document(UserDocument(id=user_id, plan=body.plan))


@routes.get(
    "/budgets",
    operation_id="list_budgets",
    summary="How the providers' budgets stand",
    response_model=BudgetList,
    responses=reads(),
)
async def budgets(app: TheApp, caller: TheAdmin) -> Response:
    """What is used, what is left, and what is kept for live work."""
    uses = [
        msgspec.to_builtins(each, builtin_types=(datetime,)) for each in await app.budgets.use()
    ]
    return answers.document(BudgetList(data=[BudgetDocument(**each) for each in uses]))
