"""The API for records, under /v1/syncs/{name}/records: look at what was imported, and export it.

Every query to the store names the user, so another user's record is not found.
"""

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from headgate.flow.records.export import ExportFormat, export
from headgate.flow.records.view import RecordPage, RecordView, shorten
from headgate.ports.records.store import RecordFilter
from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.documents import Name, Time
from headgate.toolkit.api.jobs import NOT_MODIFIED, Limit
from headgate.toolkit.api.models import model_of
from headgate.toolkit.api.route import IfNoneMatch, TheApp, TheCaller, get_problems, router
from headgate.toolkit.api.streams.event_stream import VARY, wants_stream

#: Longer than any key that Postgres can have in its index, and than a cursor made of one.
TEXT_LENGTH_MAX = 8_000
#: The most bytes of records in a page: behind AWS Lambda, an answer may have about 4.7 million.
PAGE_BYTES_MAX = 4_000_000
SyncName = Annotated[Name, Path(alias="name", description="The sync.")]
RecordKey = Annotated[
    str, Path(min_length=1, max_length=TEXT_LENGTH_MAX, description="The record's key.")
]
ConnectionOf = Annotated[Name | None, Query(description="Of this connection.")]
UserOf = Annotated[Name | None, Query(description="Of this user.")]

_MEDIA_TYPES = {ExportFormat.JSONL: "application/jsonl", ExportFormat.CSV: "text/csv"}

RecordModel = model_of(RecordView, examples.RECORD)
RecordPageModel = model_of(
    RecordPage, {"data": [examples.RECORD], "next_cursor": None, "note": None}
)

routes = router("/v1/syncs", "Records")


async def _which(
    caller: TheCaller,
    name: SyncName,
    connection_id: ConnectionOf = None,
    user_id: UserOf = None,
    key_prefix: Annotated[
        str | None,
        Query(max_length=TEXT_LENGTH_MAX, description="Whose key begins with this."),
    ] = None,
    since: Annotated[
        Time | None, Query(description="Stored or changed at this time or later.")
    ] = None,
    until: Annotated[Time | None, Query(description="Stored or changed before this time.")] = None,
) -> RecordFilter:
    return RecordFilter(
        sync=name,
        user_id=caller.visible_user(user_id),
        connection_id=connection_id,
        key_prefix=key_prefix,
        since=since,
        until=until,
    )


def _streams() -> dict[str, Any]:
    """Describe the two formats of an export."""
    return {
        "description": "A page of records; or, as `Accept` says, all of them.",
        "content": {
            media_type: {"schema": {"type": "string"}} for media_type in _MEDIA_TYPES.values()
        },
    }


@routes.get(
    "/{name}/records",
    operation_id="list_records",
    summary="List what a sync has imported, or export it",
    response_model=RecordPageModel,
    responses={200: _streams(), **get_problems("not_found", "answer_too_large")},
)
async def list_records(
    request: Request,
    app: TheApp,
    which: Annotated[RecordFilter, Depends(_which)],
    limit: Limit = 50,
    after: Annotated[
        str | None,
        Query(max_length=TEXT_LENGTH_MAX, description="`next_cursor` of the page before."),
    ] = None,
) -> Response:
    """A user's key lists that user's records, an admin's key those of all users.

    A page has about 4 MB at most: where records are large it ends sooner, with a `next_cursor`.

    With `Accept: application/jsonl` or `Accept: text/csv` the response has all records that match,
    whatever `limit` and `after` are. It is sent while it is read; a response that ends early is
    incomplete.
    """
    accept = request.headers.get("accept", "")
    for form, media_type in _MEDIA_TYPES.items():
        if wants_stream(accept, media_type):
            # What is wrong with the request is told before the response begins.
            await app.records.page(which, limit=1)
            pieces = export(app.records, which, form)
            headers = {"Cache-Control": "no-store", **VARY}
            return StreamingResponse(pieces, media_type=media_type, headers=headers)
    page = await app.records.page(which, after=after, limit=limit)
    return responses.json_response(shorten(page, PAGE_BYTES_MAX), headers=VARY)


# `path`: a key may hold a slash.
@routes.get(
    "/{name}/records/{key:path}",
    operation_id="get_record",
    summary="Get a record by its key",
    response_model=RecordModel,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def get_record(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    name: SyncName,
    key: RecordKey,
    connection_id: ConnectionOf = None,
    user_id: UserOf = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """If several connections have a record under this key, name the connection."""
    which = RecordFilter(
        sync=name, user_id=caller.visible_user(user_id), connection_id=connection_id
    )
    return responses.etag_response(request, await app.records.get(which, key))
