"""How the items of a collection stand, in numbers: for metrics, the command line and systems."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from headgate.flow.registry import Collection
from headgate.model.states import ItemState
from headgate.ports.items import Items

_DAY = timedelta(hours=24)


class ItemStats(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one collection."""

    name: str
    title: str
    #: How many are in each state, zero included.
    states: Mapping[ItemState, int]
    #: Of the failed: how many have failed so often.
    retries: Mapping[int, int]
    #: Failed for good, until they are reset.
    stuck: int
    #: Refused by the provider's limit (429) in the last 24 hours.
    limited_24h: int
    #: How many of one user's are in each state, where a user was named.
    of_user: Mapping[ItemState, int] | None


async def item_stats(
    items: Items, collection: Collection, *, user_id: str | None = None
) -> ItemStats:
    """How the collection's items stand; with a user, that user's too."""
    name = collection.name
    counted = await items.census(name)
    return ItemStats(
        name=name,
        title=collection.title,
        states=counted.states,
        retries=counted.retries,
        stuck=await items.stuck(name),
        limited_24h=await items.limited(name, within=_DAY),
        of_user=None if user_id is None else await items.progress(name, user_id),
    )
