"""The API for admins: the use of the budgets."""

from datetime import datetime

import msgspec
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.budgets import WindowDocument
from headgate.toolkit.api.documents import response_config
from headgate.toolkit.api.route import TheAdmin, TheApp, get_problems, router

routes = router("/v1", "Administration")


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
