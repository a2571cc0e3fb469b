"""The run API: start, follow, cancel and list runs, at the paths of its specification; and search.

The API key names the user. Runs of others do not exist for it.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import BaseModel, Field, StrictBool, StrictInt, field_validator
from starlette.responses import Response

from headgate import App, InvalidInput, Mode
from headgate.errors import ActiveJobExists
from headgate.systems.notes_index import examples
from headgate.systems.notes_index.run_view import (
    STATUS_OF,
    Run,
    RunStatus,
    event_document,
    run_of,
)
from headgate.systems.notes_index.search import LIMIT_MAX, QUERY_LENGTH_MAX, NoteHits
from headgate.systems.notes_index.service import ConfirmDeletion, NotesIndex, RunRequest
from headgate.systems.notes_index.settings import ClearBy, NotesIndexSettings
from headgate.toolkit import page_of
from headgate.toolkit.api import (
    IDEMPOTENT,
    JOB_ID,
    NOT_MODIFIED,
    PAGE_MAX,
    VARY,
    After,
    AfterEvent,
    Caller,
    IfNoneMatch,
    JobKey,
    LastEventId,
    Limit,
    Name,
    ProblemError,
    TheApp,
    TheCaller,
    encode_frame,
    etag_response,
    events_response,
    get_problems,
    json_response,
    model_of,
    page_model,
    post_problems,
    request_config,
    router,
    shown_to,
    stream_job,
    view_for_caller,
    wants_stream,
)
from headgate.types import Job, JobEvent

SYSTEM = "notes-index"
RunId = Annotated[str, Path(pattern=JOB_ID, description="The run.")]
OfUser = Annotated[Name | None, Query(description="An admin's key has to name the user.")]
OfConnection = Annotated[Name | None, Query(description="Of this graph only.")]

_runs = router("/sync", "Notes runs")
_notes = router("/v1/notes", "Notes")


# ---- documents ---------------------------------------------------------------------------------


class StartRun(BaseModel):
    """A run to start."""

    model_config = request_config(examples.START)

    mode: Mode | None = Field(
        default=None,
        description="`since` (default): what changed; `full`: every page; `limit`: so many pages.",
    )
    since: StrictInt | None = Field(
        default=None,
        description="Mode `since`: in milliseconds since the epoch. Default: the last success.",
    )
    limit: StrictInt | None = Field(default=None, ge=1, description="Mode `limit`: pages.")
    clear: StrictBool = Field(default=False, description="Delete what is indexed first.")
    recreate_collection: StrictBool = Field(
        default=False, description="Delete the index itself first, such as for another embedder."
    )
    confirm_pages: StrictInt | None = Field(
        default=None, ge=0, description="How many pages these two may delete: the problem says it."
    )
    resume: StrictBool = Field(
        default=False, description="Go on with the pages that the last, unfinished run left."
    )
    dry_run: StrictBool = Field(default=False, description="Only tell what the run would do.")
    connection_id: Name | None = Field(
        default=None, description="Needed only where the user has several graphs."
    )
    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    state_file: None = Field(default=None, description="Not taken: see the problem.")

    @field_validator("state_file", mode="before")
    @classmethod
    def _refuse_state_file(cls, given: object) -> None:
        if given is not None:
            raise ValueError(
                "is not taken: the checkpoint is in the store, committed with the data; leave it "
                "out, and send `resume` to go on with the last run"
            )


class CancelRun(BaseModel):
    """Which run to cancel; nothing has to be said where only one is active."""

    model_config = request_config({"connection_id": "conn_01J8Z0Q4V8C3R6T9W2Y5B7D1FG"})

    connection_id: Name | None = None
    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")


RunModel = model_of(Run, examples.RUN)
RunPageModel = page_model("RunPage", "Runs, the newest first.", Run, examples.RUN)
NoteHitsModel = model_of(NoteHits, examples.HITS)
EventPageModel = page_model(
    "RunEventPage", "A run's events, in order.", dict[str, Any], examples.EVENT
)


async def _documents(app: App, caller: Caller, jobs: Sequence[Job]) -> list[Run]:
    views = await app.jobs.views(jobs)
    return [
        run_of(job, view_for_caller(view, caller)) for job, view in zip(jobs, views, strict=True)
    ]


async def _response(
    request: Request, app: App, caller: Caller, job: Job, *, status: int = 200
) -> Response:
    [document] = await _documents(app, caller, [job])
    headers = {"Location": f"/sync/runs/{job.id}"} if status == 202 else {}
    return etag_response(request, document, status=status, headers=headers)


# ---- starting and cancelling -------------------------------------------------------------------


@_runs.post(
    "/start",
    operation_id="start_run",
    summary="Start a run",
    status_code=202,
    response_model=RunModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems(
        "active_job_exists",
        "confirmation_missing",
        "illegal_transition",
        "not_connected",
        "not_found",
    ),
)
async def start(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    key: JobKey,
    body: Annotated[StartRun | None, Body()] = None,
) -> Response:
    """Store a run that a worker begins at once; 409 with the active `run_id` if there is one."""
    body = body or StartRun()
    user_id = caller.require_user(body.user_id)
    notes = NotesIndex(app)
    try:
        if body.resume:
            _refuse_beside_resume(body)
            submitted = await notes.resume(
                user_id=user_id, connection_id=body.connection_id, key=key
            )
        else:
            wanted = _run_request(app, caller, body, user_id, key)
            submitted = await notes.start(wanted)
    except ActiveJobExists as active:
        raise ProblemError(
            "active_job_exists", str(active), job_id=active.job_id, run_id=active.job_id
        ) from None
    except ConfirmDeletion as unconfirmed:
        raise ProblemError(
            "confirmation_missing",
            f"confirm_pages: {unconfirmed}",
            field="confirm_pages",
            deletes_pages=unconfirmed.pages,
        ) from None
    return await _response(request, app, caller, submitted.job, status=202)


def _run_request(
    app: App, caller: Caller, body: StartRun, user_id: str, key: str | None
) -> RunRequest:
    wanted = RunRequest(
        user_id=user_id,
        connection_id=body.connection_id,
        mode=body.mode or Mode.SINCE,
        since=body.since,
        limit=body.limit,
        clear=body.clear,
        recreate_collection=body.recreate_collection,
        confirmed_pages=body.confirm_pages,
        dry_run=body.dry_run,
        key=key,
    )
    settings: NotesIndexSettings | None = app.systems[SYSTEM].configuration
    allowed = settings is not None and settings.notes_clear_by is ClearBy.USER
    if wanted.deletes and not caller.is_admin and not allowed:
        raise caller.deny(
            "only an admin's API key may delete an index; HEADGATE_NOTES_CLEAR_BY=user lets users "
            "delete their own"
        )
    return wanted


def _refuse_beside_resume(body: StartRun) -> None:
    """Refuse what a resumed run takes over from the last one."""
    given = body.model_fields_set & {
        "mode", "since", "limit", "clear", "recreate_collection", "dry_run"
    }  # fmt: skip
    for field in sorted(given):
        if getattr(body, field) not in (None, False):
            raise InvalidInput(
                field, "a resumed run does what the last one was asked for; leave it out"
            )


@_runs.post(
    "/cancel",
    operation_id="cancel_run",
    summary="Cancel the active run",
    response_model=RunModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("illegal_transition", "not_found"),
)
async def cancel(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    body: Annotated[CancelRun | None, Body()] = None,
) -> Response:
    """The run is `cancelling` until its worker has stopped; what is indexed stays."""
    body = body or CancelRun()
    job = await NotesIndex(app).cancel(
        user_id=caller.require_user(body.user_id), connection_id=body.connection_id
    )
    return await _response(request, app, caller, job)


# ---- following ---------------------------------------------------------------------------------


@_runs.get(
    "/status",
    operation_id="get_run_status",
    summary="Get the status of the last run",
    response_model=RunModel,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def status(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    user_id: OfUser = None,
    connection_id: OfConnection = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The run that is active or that ended last; `idle` if none was started yet."""
    job = await NotesIndex(app).last(
        user_id=caller.require_user(user_id), connection_id=connection_id
    )
    if job is None:
        return etag_response(request, Run(status=RunStatus.IDLE))
    return await _response(request, app, caller, job)


@_runs.get(
    "/runs",
    operation_id="list_runs",
    summary="List runs, the newest first",
    response_model=RunPageModel,
    responses=get_problems("not_found"),
)
async def list_runs(
    app: TheApp,
    caller: TheCaller,
    user_id: OfUser = None,
    connection_id: OfConnection = None,
    limit: Limit = 10,
    after: After = None,
) -> Response:
    """A user's key lists that user's runs, an admin's key those of all users."""
    jobs = await NotesIndex(app).runs(
        user_id=caller.visible_user(user_id),
        connection_id=connection_id,
        limit=limit + 1,
        before=after,
    )
    page = page_of(await _documents(app, caller, jobs), limit, cursor=lambda each: str(each.run_id))
    return json_response(page)


@_runs.get(
    "/runs/{run_id}",
    operation_id="get_run",
    summary="Get a run",
    response_model=RunModel,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def get_run(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    run_id: RunId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The same document as the status, of any run."""
    job = await NotesIndex(app).get(run_id, user_id=caller.owner)
    return await _response(request, app, caller, job)


def _frame(event: JobEvent) -> bytes:
    document = event_document(event.kind, event.data, event.at)
    return encode_frame(event.kind, document, id=event.id)


def _end_frame(job: Job) -> bytes:
    return encode_frame("end", {"event": "end", "run_id": job.id, "status": STATUS_OF[job.state]})


@_runs.get(
    "/runs/{run_id}/events",
    operation_id="list_run_events",
    summary="List a run's events, in order, or stream them",
    response_model=EventPageModel,
    responses={
        200: events_response(encode_frame("batch_complete", examples.EVENT, id=7)),
        **get_problems("not_found", "too_many_streams"),
    },
)
async def events(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    run_id: RunId,
    limit: Limit = PAGE_MAX,
    after: AfterEvent = 0,
    last_event_id: LastEventId = None,
) -> Response:
    """With `Accept: text/event-stream` it streams, after `Last-Event-ID`, until the run ends."""
    job = await NotesIndex(app).get(run_id, user_id=caller.owner)
    if wants_stream(request.headers.get("accept", "")):
        begin = after if last_event_id is None else last_event_id
        return await stream_job(request, caller, job.id, after=begin, frame=_frame, end=_end_frame)
    found = await app.jobs.events(job.id, after=after, limit=limit + 1)
    shown = [shown_to(caller, each) for each in found]
    data = [{"id": each.id, **event_document(each.kind, each.data, each.at)} for each in shown]
    page = page_of(data, limit, cursor=lambda each: str(each["id"]))
    return json_response(page, headers=VARY)


# ---- searching ---------------------------------------------------------------------------------


@_notes.get(
    "/search",
    operation_id="search_notes",
    summary="Search a graph by meaning",
    response_model=NoteHitsModel,
    responses=get_problems("not_found", "not_connected"),
)
async def search(
    app: TheApp,
    caller: TheCaller,
    q: Annotated[str, Query(min_length=1, max_length=QUERY_LENGTH_MAX, description="A question.")],
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="How many, at most.")] = 10,
    user_id: OfUser = None,
    connection_id: OfConnection = None,
) -> Response:
    """The blocks that fit the question best, with their pages; none before the first run."""
    hits = await NotesIndex(app).search(
        q, user_id=caller.require_user(user_id), connection_id=connection_id, limit=limit
    )
    return json_response(hits)


routes = APIRouter()
routes.include_router(_runs)
routes.include_router(_notes)
