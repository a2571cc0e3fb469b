"""The representation of an item, for the API and `--json`."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from headgate.flow.jobs.explain import explain_item
from headgate.flow.view import View, shared_fields
from headgate.model.item import Item
from headgate.model.job import Lane
from headgate.model.states import ItemState


class ItemView(View, frozen=True, kw_only=True):
    """A thing that is fetched by itself, and its state."""

    _FOR_OPERATORS = ("error",)

    id: str
    collection: Annotated[str, Meta(description="The kind of thing.")]
    user_id: str
    connection_id: str
    external_id: Annotated[str | None, Meta(description="The provider's id; null: not known yet.")]
    lane: Lane
    start_time: Annotated[
        datetime, Meta(description="The time of the thing: the oldest is fetched first.")
    ]
    state: ItemState
    stuck: Annotated[bool, Meta(description="Whether it has failed for good, until it is reset.")]
    retry_count: Annotated[int, Meta(description="Failed fetches.")]
    deferrals: Annotated[int, Meta(description="How often the provider asked to wait.")]
    crashes: Annotated[int, Meta(description="Workers that were lost while they fetched it.")]
    next_attempt_at: Annotated[datetime | None, Meta(description="null: no fetch is planned.")]
    deferred_until: datetime | None
    attempted_at: datetime | None
    limited_at: Annotated[
        datetime | None, Meta(description="When the provider last answered 429 for it.")
    ]
    message: Annotated[str | None, Meta(description="For the user: what happened, and what to do.")]
    error: Annotated[str | None, Meta(description="The last error, for an admin's key; else null.")]
    created_at: datetime
    updated_at: datetime


def item_view(item: Item) -> ItemView:
    """The view of an item."""
    return ItemView(**shared_fields(ItemView, item), message=explain_item(item))
