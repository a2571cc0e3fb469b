"""Reads the pages of a graph for a run: first a plan of the pages, then a batch with each chunk.

The plan is stored as records, a thousand pages in each, and the cursor only says how far the run
is. So a checkpoint is small however large the graph is, and a run goes on with exactly the pages
that are left, in another process or in another run.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Unpack

import msgspec

from headgate import (
    ApiSource,
    Chunk,
    ChunkEvent,
    Conflict,
    Context,
    InvalidInput,
    Mode,
    Progress,
    Record,
    Terminal,
)
from headgate.connectors.roam import PulledPages, RoamArguments, linearise, list_pages, pull_pages
from headgate.systems.notes_index.graph_index import GraphIndex, GraphIndexes
from headgate.systems.notes_index.page_record import GonePage, PageRecord, to_record
from headgate.systems.notes_index.plan import (
    PageState,
    PlannedPage,
    RunCursor,
    RunPlan,
    make_plan,
    next_pages,
    next_parts,
    page_key,
    part_key,
    read_state,
    stale_parts,
)


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run was asked for beyond its mode."""

    #: Delete what the index holds first; or all of the index, to build it with another embedder.
    clear: bool = False
    recreate_collection: bool = False
    #: How many pages somebody agreed to delete so.
    confirmed_pages: int = 0
    #: Only plan: tell what the run would do.
    dry_run: bool = False


class RoamNotes(ApiSource):
    """The pages of users' Roam graphs that their indexes do not have yet."""

    def __init__(self, indexes: GraphIndexes, *, batch: int, **roam: Unpack[RoamArguments]) -> None:
        """Compare graphs with `indexes`, and read `batch` pages with each request."""
        super().__init__(**roam)
        self.indexes = indexes
        self._batch = batch

    async def read(self, ctx: Context) -> Chunk:
        """Plan the run; then read a batch of pages with each chunk."""
        index = self.indexes.of(ctx.user_id, ctx.connection_id)
        try:
            if ctx.cursor is None:
                return await self._plan(ctx, index)
            return await self._read_batch(ctx, index, RunCursor.read(ctx.cursor))
        except (Conflict, InvalidInput) as error:
            # The extra is missing, or the index is another embedder's: to wait does not help.
            raise Terminal(str(error)) from error

    async def _plan(self, ctx: Context, index: GraphIndex) -> Chunk:
        options = msgspec.convert(ctx.options, RunOptions)
        # First: what cannot be read again must not be deleted.
        listed = await list_pages(ctx.http)
        cleared = options.clear or options.recreate_collection
        if cleared and not options.dry_run:
            await _clear(index, options)
        indexed = set() if cleared else await index.page_uids()
        if indexed and not listed:
            raise Terminal(
                f"Roam lists no page, and {len(indexed):,} are indexed: if the graph is really "
                "empty, start a run with `clear`"
            )
        keys = [page_key(page.uid) for page in listed]
        since_ms = None if ctx.since is None else epoch_ms(ctx.since)
        mark_ms = ctx.high_water if isinstance(ctx.high_water, int) else None
        plan = make_plan(
            listed,
            {} if ctx.mode is Mode.FULL else await ctx.stored_records(keys),
            indexed,
            mode=ctx.mode,
            since_ms=since_ms,
            limit=ctx.limit,
        )
        ready = ChunkEvent("chunker_ready", {"characters": self.indexes.piece_characters})
        events = [*_planning_events(plan, since_ms or mark_ms), ready]
        if options.dry_run:
            return Chunk(
                events=events,
                counts={**_plan_counts(plan), "planned": len(plan.pages)},
                progress=Progress(done=0, total=len(plan.pages)),
            )
        cursor = RunCursor(total=len(plan.pages), mark_ms=plan.mark_ms)
        first = (await ctx.stored_records([part_key(0)])).get(part_key(0))
        chunk = Chunk(
            kept=plan.parts,
            removed=stale_parts(first, plan),
            events=[*events, *self._start_event(cursor)],
            counts=_plan_counts(plan),
        )
        return _with_end(chunk, cursor)

    async def _read_batch(self, ctx: Context, index: GraphIndex, cursor: RunCursor) -> Chunk:
        parts = await ctx.stored_records(next_parts(cursor, self._batch))
        planned = next_pages(cursor, self._batch, parts)
        if planned is None:
            raise Terminal("the plan of the run was deleted: start a new run")
        present = [page for page in planned if not page.is_gone]
        pulled = await pull_pages(ctx.http, [page.uid for page in present])
        batch = await _sort_pages(ctx, index, planned, pulled)
        after = RunCursor(
            batch=cursor.batch + 1,
            done=cursor.done + len(planned),
            total=cursor.total,
            mark_ms=_below_failed(cursor.mark_ms, present, pulled),
        )
        ended = after.done == after.total
        plan_keys = [part_key(at) for at in range(after.parts)] if ended else []
        chunk = Chunk(
            records=batch.records,
            kept=batch.unchanged,
            removed=[*batch.gone_keys, *plan_keys],
            events_after_write=lambda written: [
                _complete_event(cursor, after, batch, refused=len(written.refused)),
                *self._start_event(after),
            ],
            counts=batch.counts,
        )
        return _with_end(chunk, after)

    def _start_event(self, cursor: RunCursor) -> list[ChunkEvent]:
        left = cursor.total - cursor.done
        if left == 0:
            return []
        pages = min(self._batch, left)
        return [ChunkEvent("batch_start", {"batch": cursor.batch, "pages": pages})]


class _ReadBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The pages of a batch, sorted by what has to be done with them."""

    #: For the index: to be replaced there, or to be deleted.
    records: Sequence[Record]
    #: The states of pages that are indexed as they are.
    unchanged: Sequence[Record]
    gone_keys: Sequence[str]
    updated: int
    failed: int

    @property
    def counts(self) -> Mapping[str, int]:
        return {
            "processed": self.updated + len(self.unchanged) + self.failed,
            "updated": self.updated,
            "skipped_content": len(self.unchanged),
            "failed": self.failed,
            "removed": len(self.gone_keys),
        }


async def _sort_pages(
    ctx: Context, index: GraphIndex, planned: Sequence[PlannedPage], pulled: PulledPages
) -> _ReadBatch:
    states = await ctx.stored_records([page_key(page.uid) for page in pulled.pages])
    indexed = await index.hashes([page.uid for page in pulled.pages])
    listed_ms = {page.uid: page.edited_ms for page in planned}
    records: list[Record] = []
    unchanged: list[Record] = []
    for page in pulled.pages:
        text = linearise(page)
        state = PageState(edited_ms=listed_ms[page.uid], hash=text.content_hash)
        before = states.get(page_key(page.uid))
        # By both: a killed run may have replaced it in the index, and not counted it yet.
        known = None if before is None else read_state(before).hash
        if known == state.hash == indexed.get(page.uid):
            unchanged.append(state.to_record(page.uid))
        else:
            records.append(to_record(PageRecord.of(page, text, state)))
    gone = [page.uid for page in planned if page.is_gone] + list(pulled.missing)
    return _ReadBatch(
        records=[*records, *(to_record(GonePage(uid=uid)) for uid in gone)],
        unchanged=unchanged,
        gone_keys=[page_key(uid) for uid in gone],
        updated=len(records),
        failed=len(pulled.unreadable),
    )


def _below_failed(
    mark_ms: int | None, present: Sequence[PlannedPage], pulled: PulledPages
) -> int | None:
    """The mark, below the edits of all pages that could not be read: they are tried again."""
    failed = [page.edited_ms - 1 for page in present if page.uid in pulled.unreadable]
    return None if mark_ms is None else min([mark_ms, *failed])


def _with_end(chunk: Chunk, cursor: RunCursor) -> Chunk:
    """The chunk with the cursor, the mark and the progress after it."""
    ended = cursor.done == cursor.total
    return msgspec.structs.replace(
        chunk,
        cursor=None if ended else cursor.to_json(),
        # Only then is everything up to it indexed.
        high_water=cursor.mark_ms if ended else None,
        progress=Progress(done=cursor.done, total=cursor.total, at=f"batch {cursor.batch}"),
    )


async def _clear(index: GraphIndex, options: RunOptions) -> None:
    size = await index.size()
    if size.documents > options.confirmed_pages:
        raise Terminal(
            f"the index holds {size.documents:,} pages by now, and somebody agreed to delete "
            f"{options.confirmed_pages:,}: nothing was deleted; start the run again"
        )
    await (index.drop() if options.recreate_collection else index.clear())


# ---- events and counts -------------------------------------------------------------------------


def _planning_events(plan: RunPlan, since_ms: int | None) -> list[ChunkEvent]:
    since = {"since": since_ms, "skipped": plan.skipped_since}
    return [
        ChunkEvent("uids_loaded", {"total": plan.total_pages}),
        *([] if since_ms is None else [ChunkEvent("since_applied", since)]),
        ChunkEvent(
            "metadata_filtered",
            {
                "to_process": len(plan.pages) - plan.gone,
                "skipped": plan.skipped_since,
                "to_remove": plan.gone,
            },
        ),
    ]


def _plan_counts(plan: RunPlan) -> dict[str, int]:
    return {"total_pages": plan.total_pages, "skipped_since": plan.skipped_since}


def _complete_event(
    before: RunCursor, after: RunCursor, batch: _ReadBatch, *, refused: int
) -> ChunkEvent:
    progress = Progress(done=after.done, total=after.total)
    return ChunkEvent(
        "batch_complete",
        {
            "batch": before.batch,
            "processed": {
                "processed": after.done,
                "total": after.total,
                "percent": progress.percent,
            },
            "stats": {
                "pages_updated": batch.updated - refused,
                "pages_failed": batch.failed + refused,
            },
        },
    )


def epoch_ms(at: datetime) -> int:
    """Return a time in milliseconds since the epoch, as Roam counts."""
    return round(at.timestamp() * 1_000)
