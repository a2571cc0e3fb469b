"""A Google Health sandbox on a clock that stands still, and a client with every scope."""

from datetime import UTC, datetime
from typing import Any

from headgate.base.clock import ManualClock
from headgate_sandbox.google_health.sandbox import GoogleHealth
from tests.sandbox.clients import Answer, Client

START = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)
TYPES = "/v4/users/me/dataTypes"


def make(**options: Any) -> tuple[GoogleHealth, Client, ManualClock]:
    """A sandbox, a client of its first user, and the clock."""
    clock = ManualClock(START)
    sandbox = GoogleHealth(clock, **{"days": 60, **options})
    return sandbox, Client(sandbox, sandbox.grant().access_token), clock


async def every(client: Client, data_type: str, **query: object) -> list[Any]:
    """All pages of a list."""
    found: list[Any] = []
    token = ""
    while True:
        answer = await client.get(f"{TYPES}/{data_type}/dataPoints", **query, pageToken=token)
        assert answer.status == 200, answer.body
        found += answer.json().get("dataPoints", [])
        token = answer.json().get("nextPageToken", "")
        if not token:
            return found


def civil(text: str) -> dict[str, object]:
    """A date as the API takes it."""
    year, month, day = map(int, text.split("-"))
    return {"date": {"year": year, "month": month, "day": day}}


async def roll_up(client: Client, data_type: str, start: str, end: str, **more: object) -> Answer:
    """One page of a daily roll-up."""
    body = {"range": {"start": civil(start), "end": civil(end)}, **more}
    return await client.post(f"{TYPES}/{data_type}/dataPoints:dailyRollUp", json=body)


def problem(answer: Answer) -> tuple[int, str, str]:
    """Status, canonical name and field of an error."""
    error = answer.json()["error"]
    assert error["code"] == answer.status
    details = error.get("details", [{}])[0]
    field = details.get("fieldViolations", [{}])[0].get("field", "")
    return answer.status, error["status"], field or details.get("reason", "")
