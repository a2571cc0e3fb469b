"""Examples of requests and answers, for the OpenAPI document; a test holds them to the models."""

from typing import Any

_JOB_ID = "job_01JGFJ7VW0ABCDEFGHJKMNPQRS"
_CONNECTION = "conn_01JGFJ7VW0ABCDEFGHJKMNPQRS"

START: dict[str, Any] = {
    "source": "fitbit",
    "destination": "strava",
    "start_date": "2021-01-01",
    "end_date": "2023-01-01",
}
MAKE_LINK: dict[str, Any] = {"ttl_hours": 48}

JOB_LINE: dict[str, Any] = {
    "id": _JOB_ID,
    "user_id": "user-abc",
    "sync": "fitbit-to-strava",
    "source": "fitbit",
    "destination": "strava",
    "connection_id": _CONNECTION,
    "destination_connection_id": "conn_01JGFJ8VW0ABCDEFGHJKMNPQRS",
    "mode": "history",
    "lane": "cold",
    "state": "paused",
    "reason": "breaker",
    "sentence": "Syncing is temporarily paused because the Fitbit servers are busy. "
    "We will automatically resume at 2023-10-27 15:30 UTC.",
    "percent": 9.0,
    "progress": {"done": 66, "total": 731, "at": "2022-10-27"},
    "start_date": "2021-01-01",
    "end_date": "2023-01-01",
    "cursor_date": "2022-10-27",
    "wake_at": "2023-10-27T15:30:00Z",
    "high_water": "2023-01-01T21:15:00Z",
    "counts": {
        "found": 71,
        "imported": 70,
        "refused": 1,
        "days_held": 60,
        "days_empty": 6,
        "days_failed": 0,
        "errors": 6,
    },
    "source_counts": {"without_distance": 3},
    "error": "Transient: 503",
    "error_count": 6,
    "last_attempt_at": "2023-10-27T14:30:00Z",
    "created_at": "2023-10-27T12:00:00Z",
    "updated_at": "2023-10-27T14:30:01Z",
    "started_at": "2023-10-27T12:00:01Z",
    "finished_at": None,
}
JOB: dict[str, Any] = {
    **JOB_LINE,
    "finish": {"earliest": "2023-10-28T16:00:00Z", "latest": "2023-10-29T04:00:00Z"},
    "late": False,
    "gaps": [{"day": "2022-12-24", "status": "held", "reason": "1 of 2 refused: duplicate"}],
    "poll_after_s": 10,
    "reconnect": None,
}
EVENT: dict[str, Any] = {
    "id": 7,
    "at": "2023-10-27T14:30:00Z",
    "kind": "breaker_opened",
    "data": {"error": "Transient: 503"},
}
DAY: dict[str, Any] = {"day": "2022-12-24", "status": "held", "records": 2, "reason": None}
LINK: dict[str, Any] = {
    "url": "https://sync.example/p/eyJr…",
    "expires_at": "2023-11-03T14:30:00Z",
}
FORECAST: dict[str, Any] = {
    "days": 612,
    "days_held": 119,
    "requests": [{"provider": "fitbit", "least": 612, "most": 1224}],
    "left_for_live": [{"provider": "fitbit", "limit": "hour", "amount": 150, "left": 30}],
    "finish": {"earliest": "2023-10-27T18:00:00Z", "latest": "2023-10-28T02:00:00Z"},
}
CONNECTION: dict[str, Any] = {
    "id": _CONNECTION,
    "user_id": "user-abc",
    "source": "notes",
    "state": "active",
    "reason": "connected",
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
    "error": "RateLimited: notes answered 429",
    "created_at": "2023-10-27T12:00:00Z",
    "updated_at": "2023-10-27T14:31:00Z",
}
USER: dict[str, Any] = {"id": "user-abc", "plan": "premium"}
PLAN: dict[str, Any] = {"plan": "premium"}
BUDGET: dict[str, Any] = {
    "source": "strava",
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
HISTORICAL_START: dict[str, Any] = {
    "source": "fitbit",
    "destination": "strava",
    "startDate": "2021-01-01",
    "endDate": "2023-01-01",
}
HISTORICAL_LINE: dict[str, Any] = {
    "jobId": _JOB_ID,
    "userId": "user-abc",
    "source": "fitbit",
    "destination": "strava",
    "startDate": "2021-01-01",
    "endDate": "2023-01-01",
    "cursorDate": "2022-10-27",
    "status": "PAUSED",
    "errorCount": 6,
    "lastAttempt": "2023-10-27T14:30:00Z",
    "percent": 9.0,
    "sentence": JOB["sentence"],
    "reason": "breaker",
    "wake_at": "2023-10-27T15:30:00Z",
}
HISTORICAL: dict[str, Any] = {
    **HISTORICAL_LINE,
    "finish": JOB["finish"],
    "gaps": JOB["gaps"],
    "poll_after_s": 10,
}
