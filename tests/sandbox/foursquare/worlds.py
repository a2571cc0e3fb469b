"""A Foursquare sandbox on a clock that stands still, and a client of its first user."""

from datetime import UTC, datetime
from typing import Any

from headgate.base.clock import ManualClock
from headgate_sandbox.foursquare.sandbox import Foursquare
from tests.sandbox.clients import Answer, Client

START = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)
CHECKINS = "/v2/users/self/checkins"
V = "20260101"


def make(**options: Any) -> tuple[Foursquare, Client, ManualClock]:
    """A sandbox, a client with the token in its header, and the clock."""
    clock = ManualClock(START)
    sandbox = Foursquare(clock, **{"checkins": 60, **options})
    return sandbox, Client(sandbox, sandbox.grant().access_token), clock


async def items(client: Client, **query: object) -> list[Any]:
    """The items of one page."""
    answer = await client.get(CHECKINS, v=V, **query)
    assert answer.status == 200, answer.body
    found: list[Any] = answer.json()["response"]["checkins"]["items"]
    return found


def problem(answer: Answer) -> tuple[int, str]:
    """Status and type of an error, which must be empty but for its meta."""
    body = answer.json()
    assert (body["meta"]["code"], body["response"]) == (answer.status, {})
    return answer.status, body["meta"]["errorType"]
