"""Reading a day: what is asked, what goes on to the destination, what is kept, what is an error."""

from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from headgate import Chunk, Context, Malformed, Mode, Response, Secret, Terminal, Transient
from headgate.connectors.fitbit import FitbitDays, fitbit
from headgate.connectors.fitbit.days import GONE, NO_TRACK, NOT_EXPORTED, ROLLUPS
from headgate.ports.transport import Request
from tests.unit.connectors.fakes import Bench, answer

BASE = "https://health.googleapis.com/v4"
DAY = date(2025, 12, 31)
POINTS = f"{BASE}/users/me/dataTypes/exercise/dataPoints"
TCX = "<TrainingCenterDatabase><Trackpoint/></TrainingCenterDatabase>\n"


def shown(number: int) -> dict[str, Any]:
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
        self.pages = {"": {"dataPoints": [shown(number) for number in numbers]}}
        self.files = {str(number): answer(body=TCX.encode()) for number in numbers}


async def read(google: Any, day: date | None = DAY) -> Chunk:
    bench = Bench(google, base_url=BASE)
    context = Context(
        job_id="job_1",
        user_id="ada",
        connection_id="conn_1",
        sync="history",
        mode=Mode.HISTORY,
        day=day,
        cursor=None,
        since=None,
        limit=None,
        options={},
        chunks=0,
        records=0,
        clock=bench.clock,
        gate=bench.gate,
        api=bench.http,
    )
    return await FitbitDays(**fitbit(client_id="1", client_secret=Secret("s"))).read(context)


def steps_of(day: date) -> dict[str, Any]:
    start = {"date": {"year": day.year, "month": day.month, "day": day.day}}
    return {"rollupDataPoints": [{"civilStartTime": start, "steps": {"countSum": "5"}}]}


async def test_a_day_is_asked_for_by_the_wall_clock_of_the_person() -> None:
    google = Google()

    await read(google)

    listed, *rolled = google.asked
    query = {name: value for name, [value] in parse_qs(urlsplit(listed.url).query).items()}
    assert listed.url.startswith(f"{POINTS}?")
    assert query["filter"] == (
        'exercise.interval.civil_start_time >= "2025-12-31" AND '
        'exercise.interval.civil_start_time < "2026-01-01"'
    )
    assert [each.url.split("/")[7] for each in rolled] == list(ROLLUPS)
    assert msgspec.json.decode(rolled[0].body) == {
        "range": {
            "start": {"date": {"year": 2025, "month": 12, "day": 31}},
            "end": {"date": {"year": 2026, "month": 1, "day": 1}},
        },
        "windowSizeDays": 1,
    }


async def test_exercises_go_on_with_their_files_and_the_summary_is_kept() -> None:
    google = Google()
    google.has_exercises(11, 12)
    google.rollups["steps"] = steps_of(DAY)

    chunk = await read(google)

    assert [each.key for each in chunk.records] == ["exercise:11", "exercise:12"]
    assert chunk.records[0].data["tcx"] == TCX
    [summary] = chunk.kept
    assert (summary.key, summary.data) == ("day:2025-12-31", {"day": "2025-12-31", "steps": 5})
    [export, _] = [each.url for each in google.asked if "exportExerciseTcx" in each.url]
    assert export == f"{POINTS}/11:exportExerciseTcx?alt=media&partialData=true"


async def test_every_page_is_read() -> None:
    google = Google()
    google.has_exercises(1, 2, 3)
    google.pages = {
        "": {"dataPoints": [shown(1), shown(2)], "nextPageToken": "more"},
        "more": {"dataPoints": [shown(3)]},
    }

    chunk = await read(google)

    assert [each.key for each in chunk.records] == ["exercise:1", "exercise:2", "exercise:3"]


async def test_a_day_without_anything_is_empty() -> None:
    assert await read(Google()) == Chunk(records=[], kept=[])


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (answer(body=b"<TrainingCenterDatabase><Lap/></TrainingCenterDatabase>"), NO_TRACK),
        (answer(404, {"error": {"status": "NOT_FOUND"}}), GONE),
        (answer(400, {"error": {"status": "FAILED_PRECONDITION"}}), NOT_EXPORTED),
    ],
)
async def test_an_exercise_without_a_file_is_kept_with_the_reason(file: Response, why: str) -> None:
    # Given one that cannot be exported, and one that can
    google = Google()
    google.has_exercises(1, 2)
    google.files["1"] = file

    chunk = await read(google)

    # Then nothing failed, and nothing was lost
    [kept] = chunk.kept
    assert (kept.key, kept.data["not_exported"]) == ("exercise:1", why)
    assert "tcx" not in kept.data
    assert [each.key for each in chunk.records] == ["exercise:2"]


@pytest.mark.parametrize(
    "body",
    [
        b"<!doctype html><title>Oops</title>",
        b"<TrainingCenterDatabase><Trackpoint/><Trackp",
        b"\xff\xfe</TrainingCenterDatabase>",
        b"",
    ],
)
async def test_a_file_that_is_none_is_malformed(body: bytes) -> None:
    google = Google()
    google.has_exercises(1)
    google.files["1"] = answer(body=body)

    with pytest.raises(Malformed, match="TCX"):
        await read(google)


async def test_a_file_with_prefixed_names_and_a_mark_before_it_is_one() -> None:
    google = Google()
    google.has_exercises(1)
    content = "\ufeff<t:TrainingCenterDatabase><t:Trackpoint/></t:TrainingCenterDatabase >\n"
    google.files["1"] = answer(body=content.encode())

    chunk = await read(google)

    assert str(chunk.records[0].data["tcx"]).startswith("<t:")


async def test_a_request_that_google_does_not_understand_ends_the_job() -> None:
    # Else every exercise would seem to have no file, and nobody would notice.
    google = Google()
    google.has_exercises(1)
    google.files["1"] = answer(400, {"error": {"status": "INVALID_ARGUMENT"}})

    with pytest.raises(Terminal, match="refused the form"):
        await read(google)


@pytest.mark.parametrize(
    "page",
    [
        {"dataPoints": [{"name": "x"}]},
        {"dataPoints": [{"name": "users/7/dataTypes/exercise/dataPoints/a b", "exercise": {}}]},
        {"dataPoints": {}},
        {"dataPoints": [{**shown(1), "exercise": {"interval": {}, "exerciseType": "RUNNING"}}]},
        [],
    ],
)
async def test_exercises_that_make_no_sense_are_malformed(page: Any) -> None:
    google = Google()
    google.pages = {"": page}

    with pytest.raises(Malformed):
        await read(google)


async def test_sums_that_make_no_sense_are_malformed() -> None:
    google = Google()
    google.rollups["weight"] = {"rollupDataPoints": [{"weight": {"weightGramsAvg": "heavy"}}]}

    with pytest.raises(Malformed):
        await read(google)


async def test_a_roll_up_is_a_read_and_may_be_asked_for_again() -> None:
    google, failures = Google(), [Transient("cut off")]

    def fails_once(request: Request) -> Response:
        if request.method == "POST" and failures:
            raise failures.pop()
        return google(request)

    assert await read(fails_once) == Chunk(records=[], kept=[])


async def test_only_history_can_be_read() -> None:
    with pytest.raises(Terminal, match="day by day"):
        await read(Google(), day=None)
