"""The API for items, under /v1/items: things of any collection that are fetched one by one.

Every query to the store names the user, so another user's item is not found. The system that knows
what an item is serves its document.
"""

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate.flow.documents import item_document, page_document
from headgate.model.item import Item
from headgate.model.job import Lane
from headgate.model.states import ItemState
from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name, Page, response_config
from headgate.toolkit.api.jobs import NOT_MODIFIED, Limit
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

#: Applications choose the ids of their items; an id of another form is NotFound without a query.
_AN_ID: dict[str, Any] = {
    "min_length": 1,
    "max_length": 500,
    "pattern": r"^[^\x00-\x1f\x7f-\x9f]+$",
}
ItemId = Annotated[str, Path(**_AN_ID, description="The item.")]
AfterItem = Annotated[str | None, Query(**_AN_ID, description="`next_cursor` of the page before.")]

routes = router("/v1/items", "Items")


class ItemDocument(BaseModel):
    """A thing that is fetched by itself, and its state."""

    model_config = response_config(examples.ITEM)

    id: str
    collection: str = Field(description="The kind of thing.")
    user_id: str
    connection_id: str
    external_id: str | None = Field(description="The provider's id; null: not known yet.")
    lane: Lane
    start_time: datetime = Field(description="The time of the thing: the oldest is fetched first.")
    state: ItemState
    stuck: bool = Field(description="Whether it has failed for good, until it is reset.")
    retry_count: int = Field(description="Failed fetches.")
    deferrals: int = Field(description="How often the provider asked to wait.")
    crashes: int = Field(description="Workers that were lost while they fetched it.")
    next_attempt_at: datetime | None = Field(description="null: no fetch is planned.")
    deferred_until: datetime | None
    attempted_at: datetime | None
    limited_at: datetime | None = Field(description="When the provider last answered 429 for it.")
    message: str | None = Field(description="For the user: what happened, and what to do.")
    error: str | None = Field(description="The last error, for an admin's key; else null.")
    created_at: datetime
    updated_at: datetime


class ItemPage(Page[ItemDocument]):
    """Items, in the order of their ids."""

    model_config = response_config({"data": [examples.ITEM], "next_cursor": None})


def _to_document(item: Item, caller: Caller) -> ItemDocument:
    return ItemDocument.model_validate(item_document(item, operator=caller.is_admin))


@routes.get(
    "",
    operation_id="list_items",
    summary="List items, in the order of their ids",
    response_model=ItemPage,
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
    document = partial(item_document, operator=caller.is_admin)
    return responses.json_response(ItemPage.model_validate(page_document(found, limit, document)))


# `path`: an id may hold a slash.
@routes.get(
    "/{item_id:path}",
    operation_id="get_item",
    summary="Get an item",
    response_model=ItemDocument,
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
    return responses.etag_response(request, _to_document(item, caller))


@routes.post(
    "/{item_id:path}/reset",
    operation_id="reset_item",
    summary="Fetch an item afresh",
    response_model=ItemDocument,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found", "not_connected", "illegal_transition", "conflict"),
)
async def reset(caller: TheAdmin, app: TheApp, item_id: ItemId) -> Response:
    """Clears its attempts, takes it from the worker that claimed it, and makes sure of a job."""
    return responses.json_response(_to_document(await app.items.reset(item_id), caller))
