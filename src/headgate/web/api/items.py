"""Items under /v1: things that are fetched one by one, of whatever collection.

Whose an item is, is part of every question that the store is asked: one that is another's is as if
it were not there. What was fetched for it is served by whoever knows what it is.
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
from headgate.toolkit.api import examples
from headgate.toolkit.api import responses as answers
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name, Page, shows
from headgate.toolkit.api.jobs import NOT_MODIFIED, Limit
from headgate.toolkit.api.route import (
    REPEATABLE,
    IfNoneMatch,
    TheAdmin,
    TheApp,
    TheCaller,
    posts,
    reads,
    router,
)

#: An application makes up the ids of its items: others than these are NotFound without a look.
_AN_ID: dict[str, Any] = {
    "min_length": 1,
    "max_length": 500,
    "pattern": r"^[^\x00-\x1f\x7f-\x9f]+$",
}
ItemId = Annotated[str, Path(**_AN_ID, description="The item.")]
AfterItem = Annotated[str | None, Query(**_AN_ID, description="`next_cursor` of the page before.")]

routes = router("/v1/items", "Items")


class ItemDocument(BaseModel):
    """A thing that is fetched by itself, and how it stands."""

    model_config = shows(examples.ITEM)

    id: str
    collection: str = Field(description="What kind of thing it is.")
    user_id: str
    connection_id: str
    external_id: str | None = Field(description="What the provider calls it; null: not known yet.")
    lane: Lane
    start_time: datetime = Field(description="Its place in time: the oldest is fetched first.")
    state: ItemState
    stuck: bool = Field(description="It has failed for good, until it is reset.")
    retry_count: int = Field(description="Failed fetches.")
    deferrals: int = Field(description="Times that the provider put it off.")
    crashes: int = Field(description="Workers that were lost while they fetched it.")
    next_attempt_at: datetime | None = Field(description="null: nothing happens by itself.")
    deferred_until: datetime | None
    attempted_at: datetime | None
    limited_at: datetime | None = Field(description="When the provider last answered 429 for it.")
    message: str | None = Field(description="For the user: what happened, and what to do.")
    error: str | None = Field(description="The last error, for an admin's key; else null.")
    created_at: datetime
    updated_at: datetime


class ItemPage(Page[ItemDocument]):
    """Items, in the order of their ids."""

    model_config = shows({"data": [examples.ITEM], "next_cursor": None})


def _shown(item: Item, caller: Caller) -> ItemDocument:
    return ItemDocument.model_validate(item_document(item, operator=caller.is_admin))


@routes.get(
    "",
    operation_id="list_items",
    summary="List items, in the order of their ids",
    response_model=ItemPage,
    responses=reads(),
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
    """A user's key lists that user's items, an admin's everybody's."""
    found = await app.items.list(
        collection,
        user_id=caller.looking_at(user_id),
        states=state or (),
        limit=limit + 1,
        after=after,
    )
    document = partial(item_document, operator=caller.is_admin)
    return answers.document(ItemPage.model_validate(page_document(found, limit, document)))


# `path`: an id may hold a slash.
@routes.get(
    "/{item_id:path}",
    operation_id="get_item",
    summary="How an item stands",
    response_model=ItemDocument,
    responses={**NOT_MODIFIED, **reads("not_found")},
)
async def get_item(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    item_id: ItemId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Its state, its tries and its last error."""
    item = await app.items.get(item_id, user_id=caller.owner)
    return answers.polled(request, _shown(item, caller))


@routes.post(
    "/{item_id:path}/reset",
    operation_id="reset_item",
    summary="Fetch an item afresh",
    response_model=ItemDocument,
    dependencies=[REPEATABLE],
    responses=posts("not_found", "illegal_transition", "conflict"),
)
async def reset(caller: TheAdmin, app: TheApp, item_id: ItemId) -> Response:
    """With a clean sheet: whoever holds it is shut out, and a job that fetches it is asked for."""
    return answers.document(_shown(await app.items.reset(item_id), caller))
