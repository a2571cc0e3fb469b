"""Writes pages to the index: each is split, embedded, and replaced there as a whole."""

from collections.abc import Sequence

from headgate import Batch, InvalidInput, Refusal, Terminal, WriteResult
from headgate.systems.notes_index.graph_index import GraphIndex, GraphIndexes
from headgate.systems.notes_index.page_record import GonePage, PageRecord, read_record
from headgate.systems.notes_index.plan import page_key


class PageIndex:
    """The destination of pages: the index of the graph that they are from."""

    name = "vector-index"
    title = "Notes index"

    def __init__(self, indexes: GraphIndexes) -> None:
        """Write to these indexes."""
        self._indexes = indexes

    async def write(self, batch: Batch) -> WriteResult:
        """Delete the pages that are gone, and replace the others; the receipts are their states.

        A page that is there already, by a worker that was lost afterwards, is not embedded again.
        """
        index = self._indexes.of(batch.user_id, batch.connection_id)
        carried = [read_record(record) for record in batch.records]
        pages = [page for page in carried if isinstance(page, PageRecord)]
        await index.delete([page.uid for page in carried if isinstance(page, GonePage)])
        there = await index.hashes([page.uid for page in pages])
        needed = [page for page in pages if there.get(page.uid) != page.state.hash]
        refused = await _replace(index, needed)
        taken = [page for page in pages if page.uid not in refused]
        return WriteResult(
            receipts=[page.state.to_record(page.uid) for page in taken],
            refused=[Refusal(page_key(uid), reason) for uid, reason in refused.items()],
        )


async def _replace(index: GraphIndex, pages: Sequence[PageRecord]) -> dict[str, str]:
    """Index the pages; returns those that the embedder can never take, with the reason."""
    try:
        await index.replace(pages)
        return {}
    except (InvalidInput, Terminal) as error:
        if len(pages) == 1:
            return {pages[0].uid: f"the page {pages[0].title!r} cannot be embedded: {error}"}
    # One by one: which of them it is was not told.
    refused: dict[str, str] = {}
    for page in pages:
        refused |= await _replace(index, [page])
    return refused
