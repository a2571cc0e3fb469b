"""The API for admins: the use of the budgets."""

from starlette.responses import Response

from headgate.model.budget import BudgetUse
from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.models import list_model, model_of
from headgate.toolkit.api.route import TheAdmin, TheApp, get_problems, router

routes = router("/v1", "Administration")


BudgetModel = model_of(BudgetUse, examples.BUDGET)
BudgetListModel = list_model("BudgetList", "Every declared budget.", BudgetUse, examples.BUDGET)


@routes.get(
    "/budgets",
    operation_id="list_budgets",
    summary="The use of the providers' budgets",
    response_model=BudgetListModel,
    responses=get_problems(),
)
async def budgets(app: TheApp, caller: TheAdmin) -> Response:
    """What is used, what is left, and what is reserved for live work."""
    return responses.json_response({"data": await app.budgets.use()})
