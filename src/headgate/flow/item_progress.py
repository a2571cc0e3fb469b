"""The progress of a job over items: how many items there are, in which states, and what is left."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from headgate.model.job import Job, Lane, Progress
from headgate.ports.items import ItemStore


async def count_progress(
    items: ItemStore,
    collections: Sequence[str],
    connection_id: str,
    *,
    lane: Lane | None = None,
    since: datetime | None = None,
) -> Progress:
    """The progress over a connection's items: one is done when nothing more happens by itself.

    With a lane, only the items of that lane count; with `since`, only those that are left, and
    those that were done since then.
    """
    found = await items.progress_of_connection(collections, connection_id, lane=lane, since=since)
    total = sum(found.states.values())
    return Progress(
        done=total - found.left,
        total=total,
        items={state: count for state, count in found.states.items() if count},
        collection=collections[0] if len(collections) == 1 and since is None else None,
    )


async def with_present_progress(items: ItemStore, job: Job) -> Job:
    """The job with its progress counted anew, if it is over the items of a whole collection.

    The stored progress is that of the last chunk. Since then items were fetched, by this job or by
    others, and new ones may have been registered.
    """
    stored = job.progress
    if job.ended or stored.collection is None or stored.total is None:
        return job
    present = await count_progress(items, [stored.collection], job.connection_id)
    return replace(job, progress=replace(present, at=stored.at))
