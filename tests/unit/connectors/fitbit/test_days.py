"""Reading a day: what is asked, what goes on to the destination, what is kept, what is an error."""

from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from headgate import Chunk, Malformed, Mode, ReceiptState, Secret, Terminal, Transient
from headgate.connectors import Response
from headgate.connectors.fitbit import FitbitDays, fitbit
from headgate.connectors.fitbit.days import GONE, NO_TRACK, NOT_EXPORTED, ROLLUPS
from headgate.ports.transport import Request
from tests.unit.connectors.fakes import answer
from tests.unit.connectors.fitbit.reading import DAY, POINTS, TCX, Google, context, shown, steps_of


async def read(google: Any, day: date | None = DAY, **fields: Any) -> Chunk:
    source = FitbitDays(**fitbit(client_id="1", client_secret=Secret("s")))
    return await source.read(context(google, mode=Mode.HISTORY, day=day, **fields))


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


async def test_a_day_without_anything_is_empty_and_a_roll_up_may_be_asked_for_again() -> None:
    google, failures = Google(), [Transient("cut off")]

    def fails_once(request: Request) -> Response:
        if request.method == "POST" and failures:
            raise failures.pop()
        return google(request)

    assert await read(fails_once) == await read(Google()) == Chunk(records=[], kept=[])
    with pytest.raises(Terminal, match="day by day"):
        await read(Google(), day=None)


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
    ("file", "error", "said"),
    [
        (answer(body=b"<!doctype html><title>Oops</title>"), Malformed, "TCX"),
        (answer(body=b"<TrainingCenterDatabase><Trackpoint/><Trackp"), Malformed, "TCX"),
        (answer(body=b"\xff\xfe</TrainingCenterDatabase>"), Malformed, "TCX"),
        (answer(body=b""), Malformed, "TCX"),
        # Else every exercise would seem to have no file, and nobody would notice.
        (answer(400, {"error": {"status": "INVALID_ARGUMENT"}}), Terminal, "refused the form"),
    ],
)
async def test_a_file_that_is_none_is_malformed_and_a_request_that_is_wrong_ends_the_job(
    file: Response, error: type[Exception], said: str
) -> None:
    google = Google()
    google.has_exercises(1)
    google.files["1"] = file

    with pytest.raises(error, match=said):
        await read(google)


async def test_a_file_with_prefixed_names_and_a_mark_before_it_is_one() -> None:
    google = Google()
    google.has_exercises(1)
    content = "\ufeff<t:TrainingCenterDatabase><t:Trackpoint/></t:TrainingCenterDatabase >\n"
    google.files["1"] = answer(body=content.encode())

    chunk = await read(google)

    assert str(chunk.records[0].data["tcx"]).startswith("<t:")


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
async def test_exercises_and_sums_that_make_no_sense_are_malformed(page: Any) -> None:
    google, heavy = Google(), Google()
    google.pages = {"": page}
    heavy.rollups["weight"] = {"rollupDataPoints": [{"weight": {"weightGramsAvg": "heavy"}}]}

    for each in (google, heavy):
        with pytest.raises(Malformed):
            await read(each)


async def test_an_exercise_that_strava_has_is_counted_and_not_exported_again() -> None:
    google = Google()
    google.has_exercises(1, 2, 3)
    receipts = {"exercise:1": ReceiptState.TAKEN, "exercise:3": ReceiptState.REFUSED}

    chunk = await read(google, receipts=receipts)

    # Then the one that was refused is tried again: somebody has started this import
    assert [each.key for each in chunk.records] == ["exercise:2", "exercise:3"]
    assert chunk.delivered_before == 1
    assert google.exported() == ["2", "3"]
