"""Reading one chunk: open the provider's API, ask the source, check what it gave, hand it on."""

from datetime import datetime
from typing import Any, cast

from headgate.base.errors import Malformed, NoData, Terminal
from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.model.job import Job
from headgate.ports.connector import ApiSource, Batch, Chunk, Context, Gate, Http, Way

#: More than this in one chunk would make its transaction long; a source should page.
CHUNK_RECORDS_MAX = 10_000


async def extract(rt: Runtime, sync: Sync, job: Job) -> Chunk:
    """The next chunk of `job`, already written to the sync's destination if it has one."""
    gate = rt.gates.of(sync.budget, job)
    api = await open_api(rt, sync, job, gate)
    try:
        chunk = await sync.source.read(context(rt, sync, job, gate, api))
    except NoData:
        chunk = Chunk()
    _check(chunk, sync)
    if sync.destination is not None and chunk.records:
        await sync.destination.write(
            Batch(
                key=job.chunk_key,
                user_id=job.user_id,
                connection_id=job.connection_id,
                sync=job.sync,
                day=job.cursor_date,
                records=chunk.records,
            )
        )
    return chunk


async def open_api(rt: Runtime, sync: Sync, job: Job, gate: Gate) -> Http | None:
    """The provider's API for this chunk, where the source has one.

    Raises AuthExpired where the user's connection must be made first, or again, and
    ConnectionPaused where it is paused.
    """
    if not sync.has_api:
        return None
    if rt.transport is None:
        raise Terminal(f"source {sync.source.name!r} has an API, but nothing here reaches it")
    access = None
    if sync.auth is not None:
        if rt.credentials is None:
            raise Terminal(f"source {sync.source.name!r} needs credentials, but no keys are set")
        access = await rt.credentials.open(
            sync.auth, job.connection_id, user_id=job.user_id, source=sync.source.name
        )
    way = Way(gate=gate, transport=rt.transport, access=access, clock=rt.clock, rng=rt.rng)
    return cast(ApiSource, sync.source).open_http(way)


def context(rt: Runtime, sync: Sync, job: Job, gate: Gate, api: Http | None) -> Context:
    """What the source is told."""
    params: dict[str, Any] = dict(job.params)
    since = params.get("since")
    day = job.cursor_date
    return Context(
        job_id=job.id,
        user_id=job.user_id,
        connection_id=job.connection_id,
        sync=job.sync,
        mode=job.mode,
        day=day,
        cursor=None if day is not None else job.cursor,
        since=None if since is None else datetime.fromisoformat(since),
        limit=params.get("limit"),
        options=params.get("options", {}),
        chunks=job.summary.chunks,
        records=job.summary.records,
        clock=rt.clock,
        gate=gate,
        api=api,
    )


def _check(chunk: Chunk, sync: Sync) -> None:
    if not isinstance(chunk, Chunk):
        raise Malformed(f"source {sync.source.name!r} returned {type(chunk).__name__}, not a Chunk")
    if len(chunk.records) > CHUNK_RECORDS_MAX:
        raise Malformed(
            f"source {sync.source.name!r} gave {len(chunk.records):,} records in one chunk; "
            f"at most {CHUNK_RECORDS_MAX:,}"
        )
