"""A Google Health API that answers from what a test puts in, and the context of a read."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headgate import Context, Mode, ReceiptState
from headgate.connectors import Response
from headgate.ports.transport import Request
from tests.unit.connectors.fakes import Bench, answer

BASE = "https://health.googleapis.com/v4"
DAY = date(2025, 12, 31)
POINTS = f"{BASE}/users/me/dataTypes/exercise/dataPoints"
TCX = "<TrainingCenterDatabase><Trackpoint/></TrainingCenterDatabase>\n"


def shown(number: int) -> dict[str, Any]:
    """An exercise in a list."""
    moment = {"startTime": "2025-12-31T06:00:00Z", "endTime": "2025-12-31T07:00:00Z"}
    return {
        "name": f"users/7/dataTypes/exercise/dataPoints/{number}",
        "exercise": {"interval": moment, "exerciseType": "RUNNING", "displayName": "Run"},
    }


class Google:
    """Answers by the path, from what a test puts in."""

    def __init__(self) -> None:
        #: Pages of exercises, by their token.
        self.pages: dict[str, dict[str, Any]] = {"": {}}
        self.files: dict[str, Response] = {}
        self.rollups: dict[str, Any] = {}
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        path = urlsplit(request.url).path
        if path.endswith(":dailyRollUp"):
            return answer(body=self.rollups.get(path.split("/")[5], {}))
        if path.endswith(":exportExerciseTcx"):
            return self.files[path.rpartition("/")[2].partition(":")[0]]
        [token] = parse_qs(urlsplit(request.url).query).get("pageToken", [""])
        return answer(body=self.pages[token])

    def has_exercises(self, *numbers: int) -> None:
        """List these, each with a file."""
        self.pages = {"": {"dataPoints": [shown(number) for number in numbers]}}
        self.files = {str(number): answer(body=TCX.encode()) for number in numbers}

    def exported(self) -> list[str]:
        """The exercises whose files were asked for."""
        paths = [urlsplit(each.url).path for each in self.asked]
        return [
            path.rpartition("/")[2].partition(":")[0]
            for path in paths
            if path.endswith(":exportExerciseTcx")
        ]


def context(
    google: Any, *, receipts: Mapping[str, ReceiptState] | None = None, **fields: Any
) -> Context:
    """The context of a read from this provider, by a job whose destination has some records."""
    bench = Bench(google, base_url=BASE)

    async def find_receipts(keys: Sequence[str]) -> Mapping[str, ReceiptState]:
        return {key: state for key, state in (receipts or {}).items() if key in keys}

    common: dict[str, Any] = {
        "job_id": "job_1",
        "user_id": "ada",
        "connection_id": "conn_1",
        "sync": "history",
        "day": None,
        "cursor": None,
        "since": None,
        "limit": None,
        "options": {},
        "chunks": 0,
        "records": 0,
        "clock": bench.clock,
        "gate": bench.gate,
        "api": bench.http,
        "find_receipts": find_receipts,
    }
    return Context(**{"mode": Mode.FULL, **common, **fields})


def steps_of(*days: date) -> dict[str, Any]:
    """A roll-up of five steps for each day."""
    return {
        "rollupDataPoints": [
            {
                "civilStartTime": {"date": {"year": day.year, "month": day.month, "day": day.day}},
                "steps": {"countSum": "5"},
            }
            for day in days
        ]
    }
