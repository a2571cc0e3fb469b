"""Examples of requests and responses for the OpenAPI document; a test checks them by the models.

The examples about jobs are derived from one example job, so a new field appears in them by itself.
"""

from datetime import UTC, date, datetime
from typing import Any

from msgspec.structs import replace

from headgate.base.errors import NotConnected
from headgate.flow.jobs.view import day_view, status_view, view_of
from headgate.model.forecast import Finish, Forecast, LeftForLive, Requests
from headgate.model.job import EventKind, Job, JobEvent, Lane, Mode, Progress, Reason, Summary
from headgate.model.record import Coverage
from headgate.model.states import DayStatus, JobState
from headgate.ports.jobs.submission import SubmitOutcome, SubmitStatus

_CONNECTION = "conn_01JGFJ7VW0ABCDEFGHJKMNPQRS"
_ERROR = "Transient: the provider answered 503\nraised at my_syncs/watch.py:42"
_TITLES = {"watch": "Watch", "archive": "Archive"}


def _at(hour: int, minute: int = 0, *, day: int = 27) -> datetime:
    return datetime(2023, 10, day, hour, minute, tzinfo=UTC)


START: dict[str, Any] = {
    "source": "watch",
    "destination": "archive",
    "start_date": "2021-01-01",
    "end_date": "2023-01-01",
}
START_SYNC: dict[str, Any] = {"mode": "since", "since": "2023-10-01T00:00:00Z"}
BATCH_JOB: dict[str, Any] = {
    "sync": "watch-to-archive",
    "user_id": "user-abc",
    "mode": "history",
    "start_date": "2021-01-01",
    "end_date": "2023-01-01",
    "key": "import user-abc",
}
BATCH: dict[str, Any] = {
    "jobs": [BATCH_JOB, {"sync": "watch-notes", "user_id": "user-def"}],
}
BATCH_OUTCOMES = (
    SubmitOutcome(SubmitStatus.CREATED, "job_01JGFJ7VW0ABCDEFGHJKMNPQRS"),
    SubmitOutcome(
        SubmitStatus.REFUSED,
        None,
        field="connection_id",
        error=NotConnected("watch", "the user has not connected Watch yet"),
    ),
)
MAKE_LINK: dict[str, Any] = {"ttl_hours": 48}

_JOB = Job(
    id="job_01JGFJ7VW0ABCDEFGHJKMNPQRS",
    user_id="user-abc",
    sync="watch-to-archive",
    source="watch",
    destination="archive",
    provider="watch",
    connection_id=_CONNECTION,
    destination_connection_id="conn_01JGFJ8VW0ABCDEFGHJKMNPQRS",
    mode=Mode.HISTORY,
    lane=Lane.COLD,
    state=JobState.PAUSED,
    reason=Reason.BREAKER,
    error=_ERROR,
    start_date=date(2021, 1, 1),
    end_date=date(2023, 1, 1),
    cursor="2022-10-27",
    high_water="2023-01-01T21:15:00Z",
    wake_at=_at(15, 30),
    recent_errors=(_at(14, 30),) * 6,
    pauses=1,
    steps=66,
    token=9,
    progress=Progress(done=66, total=731, at="2022-10-27"),
    summary=Summary(
        records=71,
        delivered=70,
        refused=1,
        days_held=60,
        days_empty=6,
        errors=6,
        counts={"without_distance": 3},
    ),
    created_at=_at(12),
    updated_at=_at(14, 30),
    started_at=_at(12),
    attempted_at=_at(14, 30),
)
_DAY = Coverage(day=date(2022, 12, 24), status=DayStatus.HELD, records=2, error="duplicate")
DAY = day_view(_DAY.day, _DAY, destination="Archive")
JOB_IN_LIST = view_of(_JOB, now=_at(14, 31), titles=_TITLES)
_FINISH = Finish(earliest=_at(16, day=28), likely=_at(22, day=28), latest=_at(4, day=29))

#: The status of a job, as an example in the description of an API.
JOB = status_view(JOB_IN_LIST, now=_at(14, 31), finish=_FINISH, gaps=[DAY])
EVENT = JobEvent(
    id=7,
    job_id=_JOB.id,
    at=_at(14, 30),
    kind=EventKind.BREAKER_OPENED,
    data={"error": _ERROR, "cooldown_s": 3600.0, "pause": 1},
)
ENDED_JOB = replace(_JOB, state=JobState.SUCCESS, reason=Reason.DONE, wake_at=None)
FORECAST = Forecast(
    days=612,
    days_held=119,
    requests=(Requests(provider="watch", least=612, most=1224),),
    left_for_live=(LeftForLive(provider="watch", limit="hour", amount=150, left=30),),
    finish=Finish(earliest=_at(18), likely=_at(22), latest=_at(2, day=28)),
)
LINK: dict[str, Any] = {
    "url": "https://sync.example/p/eyJr…",
    "expires_at": "2023-11-03T14:30:00Z",
}
CONNECTION: dict[str, Any] = {
    "id": _CONNECTION,
    "user_id": "user-abc",
    "source": "notes",
    "state": "active",
    "reason": "connected",
    "message": None,
    "error": None,
    "external_id": "227615",
    "scopes": ["read"],
    "expires_at": "2023-10-27T20:30:00Z",
    "created_at": "2023-10-27T12:00:00Z",
    "updated_at": "2023-10-27T14:30:00Z",
}
CONNECT: dict[str, Any] = {"source": "notes"}
HAND_OVER: dict[str, Any] = {
    "source": "notes",
    "token": "copied-from-the-settings-page",
    "external_id": "227615",
}
ITEM: dict[str, Any] = {
    "id": f"{_CONNECTION}-4711",
    "collection": "notes.attachments",
    "user_id": "user-abc",
    "connection_id": _CONNECTION,
    "external_id": "4711",
    "lane": "cold",
    "start_time": "2023-10-27T06:30:00Z",
    "state": "deferred",
    "stuck": False,
    "retry_count": 0,
    "deferrals": 1,
    "crashes": 0,
    "next_attempt_at": "2023-10-27T14:45:00Z",
    "deferred_until": "2023-10-27T14:45:00Z",
    "attempted_at": "2023-10-27T14:31:00Z",
    "limited_at": "2023-10-27T14:31:00Z",
    "message": "The provider lets us ask for only so much at a time; "
    "going on at 2023-10-27 14:45 UTC.",
    "error": "RateLimited: notes answered 429",
    "created_at": "2023-10-27T12:00:00Z",
    "updated_at": "2023-10-27T14:31:00Z",
}
RECORD: dict[str, Any] = {
    "sync": "step-history",
    "user_id": "user-abc",
    "connection_id": "conn_01JGFJ7VW0ABCDEFGHJKMNPQRS",
    "key": "2023-10-27",
    "data": {"steps": 8412},
    "created_at": "2023-10-28T02:00:07Z",
    "updated_at": "2023-10-28T02:00:07Z",
}
USER: dict[str, Any] = {
    "id": "user-abc",
    "plan": "premium",
    "last_login_at": "2023-10-27T14:00:00Z",
    "preferences": {
        "frequency": "daily",
        "time": "06:30",
        "zone": "Europe/Vienna",
        "email": "ada@example.org",
        "notify": True,
    },
    "paused_at": None,
    "paused_by": None,
    "pause_reason": None,
    "created_at": "2023-10-01T09:12:00Z",
    "updated_at": "2023-10-27T14:00:00Z",
}
ERASURE: dict[str, Any] = {
    "id": "erasure_01jb0000000000000000000000",
    "finished": True,
    "deleted": {"connection": 1, "job": 3, "job_event": 412, "record": 5210, "user": 1},
    "unrevoked": [],
    "unreached": [],
    "asked_by": "backend (key_01jb)",
    "asked_at": "2024-03-01T14:30:00Z",
    "finished_at": "2024-03-01T14:30:02Z",
}
USER_EXPORT: dict[str, Any] = {
    "schema": {"type": "string"},
    "examples": {"example": {"value": '{"type":"user","id":"ada","plan":"premium"}\n'}},
}
PLAN: dict[str, Any] = {"plan": "premium"}
SET_PREFERENCES: dict[str, Any] = {"time": "06:30", "zone": "Europe/Vienna"}
PAUSE_USER: dict[str, Any] = {"reason": "on holiday until May"}
BUDGET: dict[str, Any] = {
    "source": "watch",
    "connection_id": None,
    "windows": [
        {
            "limit": "15min",
            "scope": "app",
            "amount": 100,
            "used": 61,
            "remaining": 39,
            "reserved": 20,
            "resets_at": "2023-10-27T14:45:00Z",
            "hot": 12,
            "cold": 48,
            "retries": 1,
            "theirs": 61,
            "unknown": False,
        }
    ],
    "closed_until": None,
    "next_cold_at": "2023-10-27T14:30:09Z",
    "slots_used": 1,
    "slots": 4,
    "refused_24h": {"reserve": 3},
    "answers_429_24h": 0,
}
