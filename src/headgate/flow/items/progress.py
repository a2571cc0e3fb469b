"""The progress of a job over items: how many items there are, in which states, and what is left."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from headgate.model.job import Job, Lane, Progress
from headgate.model.states import ItemState
from headgate.ports.items import ItemProgress, ItemStore


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
    of = [(each, connection_id) for each in collections]
    found = await items.progress_of_connections(of, lane=lane, since=since)
    whole = len(collections) == 1 and since is None
    return _sum(found.values(), collections[0] if whole else None)


async def with_present_progress(items: ItemStore | None, jobs: Sequence[Job]) -> list[Job]:
    """The jobs; of those over the items of a whole collection, the progress is counted anew.

    The stored progress is that of the last chunk. Since then items were fetched, by this job or by
    others, and new ones may have been registered. All are counted by one read.
    """
    if items is None:
        return list(jobs)
    of = {
        job.id: (job.progress.collection, job.connection_id)
        for job in jobs
        if not job.ended and job.progress.collection is not None and job.progress.total is not None
    }
    found = await items.progress_of_connections(list(dict.fromkeys(of.values()))) if of else {}
    present = {each: _sum([counted], each[0]) for each, counted in found.items()}
    return [
        replace(job, progress=replace(present[of[job.id]], at=job.progress.at))
        if job.id in of
        else job
        for job in jobs
    ]


def _sum(found: Iterable[ItemProgress], collection: str | None) -> Progress:
    states, left = Counter[ItemState](), 0
    for each in found:
        states.update(each.states)
        left += each.left
    return Progress(
        done=states.total() - left,
        total=states.total(),
        items={state: states[state] for state in ItemState if states[state]},
        collection=collection,
    )
