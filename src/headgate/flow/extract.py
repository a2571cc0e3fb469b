"""Reading one chunk: open the provider's API, ask the source, check what it gave, hand it on."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

import msgspec

from headgate.base.errors import Malformed, NoData, SourceError, Terminal, Transient
from headgate.base.redact import describe
from headgate.flow.fetch_item import JobItems
from headgate.flow.registry import Sync, auth_of, budget_of, has_api
from headgate.flow.runtime import Runtime
from headgate.model.job import Job
from headgate.ports.connector import (
    Batch,
    Chunk,
    Context,
    Destination,
    Gate,
    Http,
    Reachable,
    Source,
    Way,
    Written,
)

#: More than this in one chunk would make its transaction long; a source should page.
CHUNK_RECORDS_MAX = 10_000


class Whereabouts:
    """Whom a chunk is waiting for at the moment."""

    def __init__(self, provider: str) -> None:
        """Begin with `provider`."""
        self.provider = provider


async def extract(
    rt: Runtime, sync: Sync, job: Job, at: Whereabouts
) -> tuple[Chunk, Written | None]:
    """The next chunk of `job`, and what became of it at the sync's destination if it has one."""
    deliver = None
    if sync.destination is not None:
        # Before anything is read: what could not be delivered need not be asked for.
        with _blaming(sync.destination):
            deliver = await _Delivery.open(rt, sync.destination, job)
    gate = rt.gates.of(budget_of(sync.source), job.lane, job.connection_id)
    api = await open_api(rt, sync.source, job.connection_id, job, gate)
    try:
        chunk = await sync.source.read(context(rt, sync, job, gate, api))
    except NoData:
        chunk = Chunk()
    _check(chunk, sync)
    if deliver is None:
        return chunk, None
    if not chunk.records:
        return chunk, Written()
    at.provider = deliver.destination.name
    with _blaming(deliver.destination):
        return chunk, await deliver.write(rt, job, chunk)


class _Delivery(msgspec.Struct, frozen=True):
    """A destination that lets us in."""

    destination: Destination
    api: Http | None

    @classmethod
    async def open(cls, rt: Runtime, destination: Destination, job: Job) -> "_Delivery":
        connection_id = job.destination_connection_id
        gate = rt.gates.of(budget_of(destination), job.lane, connection_id or job.connection_id)
        return cls(destination, await open_api(rt, destination, connection_id, job, gate))

    async def write(self, rt: Runtime, job: Job, chunk: Chunk) -> Written:
        batch = Batch(
            key=job.chunk_key,
            user_id=job.user_id,
            connection_id=job.connection_id,
            destination_connection_id=job.destination_connection_id,
            sync=job.sync,
            day=job.cursor_date,
            records=chunk.records,
            clock=rt.clock,
            api=self.api,
        )
        return await self.destination.write(batch) or Written()


@contextmanager
def _blaming(destination: Destination) -> Iterator[None]:
    """What goes wrong in here is not the source's fault."""
    try:
        yield
    except SourceError as error:
        error.provider = error.provider or destination.name
        raise
    except Exception as error:
        blamed = Transient(describe(error))
        blamed.provider = destination.name
        raise blamed from error


async def open_api(
    rt: Runtime, end: Source | Destination, connection_id: str | None, job: Job, gate: Gate
) -> Http | None:
    """The provider's API for this chunk, where the source or the destination has one.

    Raises AuthExpired where the user's connection must be made first, or again, and
    ConnectionPaused where it is paused.
    """
    if not has_api(end):
        return None
    if rt.transport is None:
        raise Terminal(f"{end.name!r} has an API, but nothing here reaches it")
    access = None
    auth = auth_of(end)
    if auth is not None:
        if rt.credentials is None:
            raise Terminal(f"{end.name!r} needs credentials, but no keys are set")
        if connection_id is None:
            raise Terminal(f"the job names no connection to {end.name!r}")
        access = await rt.credentials.open(
            auth, connection_id, user_id=job.user_id, source=end.name
        )
    way = Way(gate=gate, transport=rt.transport, access=access, clock=rt.clock, rng=rt.rng)
    return cast(Reachable, end).open_http(way)


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
        item_work=JobItems(rt.fetching, job.connection_id),
    )


def _check(chunk: Chunk, sync: Sync) -> None:
    if not isinstance(chunk, Chunk):
        raise Malformed(f"source {sync.source.name!r} returned {type(chunk).__name__}, not a Chunk")
    count = len(chunk.records) + len(chunk.kept)
    if count > CHUNK_RECORDS_MAX:
        raise Malformed(
            f"source {sync.source.name!r} gave {count:,} records in one chunk; "
            f"at most {CHUNK_RECORDS_MAX:,}"
        )
