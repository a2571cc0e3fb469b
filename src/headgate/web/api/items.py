"""The API for items, under /v1/items: things of any collection that are fetched one by one.

Every query to the store names the user, so another user's item is not found. The system that knows
what an item is serves its document.
"""

from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from headgate.flow.items.view import ItemView, item_view
from headgate.model.item import Item
from headgate.model.states import ItemState
from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name, view_for_caller
from headgate.toolkit.api.jobs import NOT_MODIFIED, Limit
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
)
from headgate.toolkit.paging import page_of

#: Applications choose the ids of their items; an id of another form is NotFound without a query.
_AN_ID: dict[str, Any] = {
    "min_length": 1,
    "max_length": 500,
    "pattern": r"^[^\x00-\x1f\x7f-\x9f]+$",
}
ItemId = Annotated[str, Path(**_AN_ID, description="The item.")]
AfterItem = Annotated[str | None, Query(**_AN_ID, description="`next_cursor` of the page before.")]

routes = router("/v1/items", "Items")


ItemModel = model_of(ItemView, examples.ITEM)
ItemPageModel = page_model("ItemPage", "Items, in the order of their ids.", ItemView, examples.ITEM)


def _view(item: Item, caller: Caller) -> ItemView:
    return view_for_caller(item_view(item), caller)


@routes.get(
    "",
    operation_id="list_items",
    summary="List items, in the order of their ids",
    response_model=ItemPageModel,
    responses=get_problems(),
)
async def list_items(
    app: TheApp,
    caller: TheCaller,
    collection: Annotated[Name | None, Query(description="Of this collection.")] = None,
    state: Annotated[list[ItemState] | None, Query(description="In one of these states.")] = None,
    user_id: Annotated[Name | None, Query(description="Of this user.")] = None,
    limit: Limit = 50,
    after: AfterItem = None,
) -> Response:
    """A user's key lists that user's items, an admin's key those of all users."""
    found = await app.items.list(
        collection,
        user_id=caller.visible_user(user_id),
        states=state or (),
        limit=limit + 1,
        after=after,
    )
    return responses.json_response(page_of([_view(each, caller) for each in found], limit))


# `path`: an id may hold a slash.
@routes.get(
    "/{item_id:path}",
    operation_id="get_item",
    summary="Get an item",
    response_model=ItemModel,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def get_item(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    item_id: ItemId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Shows its state, its attempts and its last error."""
    item = await app.items.get(item_id, user_id=caller.owner)
    return responses.etag_response(request, _view(item, caller))


@routes.post(
    "/{item_id:path}/reset",
    operation_id="reset_item",
    summary="Fetch an item afresh",
    response_model=ItemModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found", "not_connected", "illegal_transition", "conflict"),
)
async def reset(caller: TheAdmin, app: TheApp, item_id: ItemId) -> Response:
    """Clears its attempts, takes it from the worker that claimed it, and makes sure of a job."""
    return responses.json_response(_view(await app.items.reset(item_id), caller))
