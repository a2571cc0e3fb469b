"""The examples in the OpenAPI document of the run API."""

from datetime import UTC, datetime

from headgate import JsonObject, Mode
from headgate.systems.notes_index.run_view import (
    Processed,
    Run,
    RunParams,
    RunProgress,
    RunStatus,
    RunSummary,
    event_document,
)
from headgate.systems.notes_index.search import NoteHit, NoteHits, PageName

_BEGAN = datetime(2026, 1, 15, 10, 29, 12, tzinfo=UTC)
_NOW = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)
_PROCESSED = Processed(processed=150, total=500, percent=30.0)
_STATS = {"pages_updated": 148, "pages_failed": 2}

START = {"mode": "since", "since": 1705000000000}
RUN = Run(
    status=RunStatus.RUNNING,
    run_id="job_01J8Z0Q4V8C3R6T9W2Y5B7D1FG",
    user_id="ada",
    connection_id="conn_01J8Z0Q4V8C3R6T9W2Y5B7D1FG",
    mode=Mode.SINCE,
    params=RunParams(since=1705000000000),
    started_at=_BEGAN,
    progress=RunProgress(
        event="batch_complete", batch=3, processed=_PROCESSED, stats=_STATS, timestamp=_NOW
    ),
    summary=RunSummary(
        total_pages=5000,
        processed=150,
        updated=148,
        skipped_since=4500,
        skipped_content=0,
        failed=2,
        removed=0,
        cursor_max_edit_time=None,
    ),
    message="Working.",
)
EVENT: JsonObject = event_document(
    "batch_complete", {"batch": 3, "processed": _PROCESSED, "stats": _STATS}, _NOW
)
HITS = NoteHits(
    data=[
        NoteHit(
            page=PageName(uid="gT5x8Lm2q", title="Central banks"),
            block_uid="k3R_9sWv1",
            snippet="They raise interest rates to fight inflation.",
            score=0.71,
        )
    ]
)
