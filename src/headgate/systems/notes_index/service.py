"""`NotesIndex`, the system's API in Python: starts, finds, cancels and continues runs; searches."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from headgate import App, Conflict, InvalidInput, JobState, Mode, NotFound
from headgate.connectors.roam import NAME as ROAM
from headgate.connectors.vectors import IndexSize
from headgate.errors import IllegalTransition
from headgate.systems.notes_index import search
from headgate.systems.notes_index.graph_index import GraphIndex, GraphIndexes
from headgate.systems.notes_index.search import NoteHits
from headgate.systems.notes_index.source import RoamNotes, RunOptions
from headgate.systems.notes_index.syncs import NAME
from headgate.types import Job, SubmitResult

_ACTIVE = (JobState.PENDING, JobState.RUNNING, JobState.PAUSED, JobState.CANCELLING)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The last millisecond that a time can have.
_SINCE_MAX = 253_402_300_799_999


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run to start."""

    user_id: str
    #: May be left out if the user has one graph only.
    connection_id: str | None = None
    mode: Mode = Mode.SINCE
    #: Mode since: in milliseconds since the epoch; None: since the last success.
    since: int | None = None
    #: Mode limit: how many pages.
    limit: int | None = None
    clear: bool = False
    recreate_collection: bool = False
    #: How many pages these two may delete, as `NotesIndex.size` says.
    confirmed_pages: int | None = None
    dry_run: bool = False
    key: str | None = None

    @property
    def deletes(self) -> bool:
        """Whether it deletes what the index holds first."""
        return (self.clear or self.recreate_collection) and not self.dry_run


class ConfirmDeletion(Conflict):
    """Somebody has to agree to what the run deletes."""

    def __init__(self, size: IndexSize) -> None:
        """Say what there is."""
        super().__init__(
            f"this deletes the {size.documents:,} pages that are indexed, in {size.pieces:,} "
            "pieces, before they are indexed again; confirm that number of pages"
        )
        self.pages = size.documents


class NotesIndex:
    """Runs and searches. With a `user_id`, another user's runs are NotFound."""

    def __init__(self, app: App) -> None:
        """Use `app`, which must be open and have the sync of this system."""
        self._app = app

    # ---- runs ----------------------------------------------------------------------------------

    async def start(self, request: RunRequest) -> SubmitResult:
        """Start a run; ActiveJobExists if one is active, also while it is being cancelled.

        Raises ConfirmDeletion if it deletes something, and that number of pages is not confirmed.
        """
        options = RunOptions(
            clear=request.clear,
            recreate_collection=request.recreate_collection,
            confirmed_pages=await self._confirm(request) if request.deletes else 0,
            dry_run=request.dry_run,
        )
        return await self._app.jobs.submit(
            NAME,
            user_id=request.user_id,
            connection_id=request.connection_id,
            mode=request.mode,
            since=None if request.since is None else _time(request.since),
            limit=request.limit,
            options=msgspec.to_builtins(options),
            key=request.key,
        )

    async def resume(
        self, *, user_id: str, connection_id: str | None = None, key: str | None = None
    ) -> SubmitResult:
        """Start a run with the pages that the last one left; Conflict if it left none."""
        return await self._app.jobs.continue_last(
            NAME, user_id=user_id, connection_id=connection_id, key=key, ignore=_is_dry_run
        )

    async def get(self, run_id: str, *, user_id: str | None = None) -> Job:
        """Return a run."""
        job = await self._app.jobs.get(run_id, user_id=user_id)
        if job.sync != NAME:
            raise NotFound(f"there is no run {run_id!r}")
        return job

    async def runs(
        self,
        *,
        user_id: str | None = None,
        connection_id: str | None = None,
        limit: int = 10,
        before: str | None = None,
    ) -> Sequence[Job]:
        """Return runs, the newest first; for the next page, pass the last id as `before`.

        Raises NotFound for a connection that has no runs because it does not exist.
        """
        found = await self._app.jobs.list(
            sync=NAME, user_id=user_id, connection_id=connection_id, limit=limit, before=before
        )
        if connection_id is not None and not found and before is None:
            await self._app.connections.get(connection_id, user_id=user_id)
        return found

    async def last(self, *, user_id: str, connection_id: str | None = None) -> Job | None:
        """Return the user's run that is active, or the last one, if there was one."""
        runs = await self._active(user_id, connection_id, limit=1) or await self.runs(
            user_id=user_id, connection_id=connection_id, limit=1
        )
        return runs[0] if runs else None

    async def cancel(self, *, user_id: str, connection_id: str | None = None) -> Job:
        """Cancel the active run; what it has indexed stays. Conflict if none is active."""
        active = await self._active(user_id, connection_id, limit=2)
        if not active:
            await self.last(user_id=user_id, connection_id=connection_id)
            raise IllegalTransition("no run is active: there is nothing to cancel")
        if len(active) > 1:
            raise InvalidInput("connection_id", "several runs are active: name the graph's")
        [job] = active
        if job.state is JobState.CANCELLING:
            return job
        return await self._app.jobs.cancel(job.id, user_id=user_id)

    # ---- the index -----------------------------------------------------------------------------

    async def search(
        self, query: str, *, user_id: str, connection_id: str | None = None, limit: int = 10
    ) -> NoteHits:
        """Return the blocks of the user's graph that fit a question best."""
        index = await self._index(user_id, connection_id)
        return await search.search(index, query, limit=limit)

    async def size(self, *, user_id: str, connection_id: str | None = None) -> IndexSize:
        """Return how much of the user's graph is indexed."""
        return await (await self._index(user_id, connection_id)).size()

    async def erase(self, user_id: str) -> None:
        """Delete everything that is indexed of a user."""
        await self._indexes().drop_user(user_id)

    def texts(self, user_id: str) -> AsyncIterator[tuple[str, str]]:
        """Return the texts that are indexed of a user, each with the uid of its page."""
        return self._indexes().texts_of_user(user_id)

    async def _active(
        self, user_id: str, connection_id: str | None, *, limit: int
    ) -> Sequence[Job]:
        return await self._app.jobs.list(
            sync=NAME, user_id=user_id, connection_id=connection_id, states=_ACTIVE, limit=limit
        )

    async def _confirm(self, request: RunRequest) -> int:
        size = await self.size(user_id=request.user_id, connection_id=request.connection_id)
        # Nobody is asked about nothing; if there is something by then, the run deletes nothing.
        if size.documents and request.confirmed_pages != size.documents:
            raise ConfirmDeletion(size)
        return size.documents

    async def _index(self, user_id: str, connection_id: str | None) -> GraphIndex:
        connection = await self._app.connections.resolve(
            ROAM, user_id=user_id, connection_id=connection_id
        )
        return self._indexes().of(user_id, connection.id)

    def _indexes(self) -> GraphIndexes:
        source = self._app.registry.get(NAME).source
        assert isinstance(source, RoamNotes), "the sync is this system's own"
        return source.indexes


def _time(since_ms: int) -> datetime:
    if not 0 <= since_ms <= _SINCE_MAX:
        raise InvalidInput("since", "must be milliseconds since 1970, such as 1705000000000")
    return _EPOCH + timedelta(milliseconds=since_ms)


def _is_dry_run(job: Job) -> bool:
    return msgspec.convert(job.params.options, RunOptions).dry_run


async def erase(app: App, user_id: str) -> None:
    """Delete everything that is indexed of a user."""
    # Without the sync, nobody knows the folder, and nothing was ever indexed in it by this process.
    if app.registry.find(NAME) is not None:
        await NotesIndex(app).erase(user_id)


async def export(app: App, user_id: str) -> AsyncIterator[dict[str, Any]]:
    """Return everything that is indexed of a user, piece by piece."""
    if app.registry.find(NAME) is not None:
        async for page_uid, text in NotesIndex(app).texts(user_id):
            yield {"type": "note_text", "page": page_uid, "text": text}
