"""The source that reads one day from Fitbit: the exercises with their TCX files, and the totals.

Exercises go to the destination; the day's summary stays in Headgate. An exercise without a file
stays in Headgate too, with the reason.
"""

import re
from collections.abc import AsyncIterator
from datetime import date, timedelta

from headgate.base.encoding import JsonObject
from headgate.base.errors import Malformed, Terminal
from headgate.connectors.fitbit.api import GoogleFault
from headgate.connectors.fitbit.shapes import (
    ExercisePage,
    ExercisePoint,
    RollupPage,
    RollupPoint,
    exercise_data,
    summary_data,
)
from headgate.connectors.paging import NextToken
from headgate.connectors.source import ApiSource
from headgate.model.record import Record
from headgate.ports.connector import Chunk, Context, Http
from headgate.ports.transport import Response

#: The data types of a day's summary.
ROLLUPS = ("steps", "distance", "total-calories", "heart-rate", "active-minutes", "weight")
#: The most that Google puts on a page of exercises.
PAGE_SIZE = 25

NO_TRACK = "Fitbit has no track of it, as with exercises that are entered by hand"
GONE = "Fitbit no longer has it"
NOT_EXPORTED = "Fitbit does not export it"

_POINTS = "/users/me/dataTypes/{}/dataPoints"
_TRACKPOINT = re.compile(r"<(?:\w+:)?Trackpoint\b")
_WHOLE_FILE = re.compile(r"</(?:\w+:)?TrainingCenterDatabase\s*>\s*\Z")
_REFUSED, _NOT_FOUND = 400, 404


class FitbitDays(ApiSource):
    """The source: each chunk is one day."""

    async def read(self, ctx: Context) -> Chunk:
        """Return the day's exercises for the destination, and the records that stay here."""
        if ctx.day is None:
            raise Terminal("Fitbit is read day by day: submit the job in mode history")
        records, kept = [], []
        async for point in _exercises(ctx.http, ctx.day):
            data, (tcx, why) = exercise_data(point), await _export(ctx.http, point)
            if tcx is not None:
                records.append(Record(f"exercise:{point.id}", {**data, "tcx": tcx}))
            else:
                kept.append(Record(f"exercise:{point.id}", {**data, "not_exported": why}))
        summary = await _summary(ctx.http, ctx.day)
        if summary:
            kept.append(Record(f"day:{ctx.day}", {"day": str(ctx.day), **summary}))
        return Chunk(records=records, kept=kept)


async def _exercises(http: Http, day: date) -> AsyncIterator[ExercisePoint]:
    """Yield the exercises that began on that day, in the person's own time zone."""
    field = "exercise.interval.civil_start_time"
    following = day + timedelta(days=1)
    params = {
        "filter": f'{field} >= "{day}" AND {field} < "{following}"',
        "pageSize": PAGE_SIZE,
    }
    async for page in http.pages(_POINTS.format("exercise"), params, paging=NextToken()):
        for point in page.json(ExercisePage).data_points:
            yield point


async def _export(http: Http, point: ExercisePoint) -> tuple[str | None, str | None]:
    """Return the TCX file, or why there is none.

    `partialData` requests the points even without GPS: a heart rate recorded indoors makes an
    activity too. A file without any point makes none, because Strava needs a time for each.
    """
    response = await http.get(
        f"{_POINTS.format('exercise')}/{point.id}:exportExerciseTcx",
        {"alt": "media", "partialData": "true"},
        headers={"accept": "*/*"},
        accept={_REFUSED, _NOT_FOUND},
    )
    if response.status == _NOT_FOUND:
        return None, GONE
    if response.status == _REFUSED:
        if response.json(GoogleFault).error.status != "FAILED_PRECONDITION":
            raise Terminal("Fitbit refused the form of our request for a TCX file")
        return None, NOT_EXPORTED
    text = _tcx(response)
    return (text, None) if _TRACKPOINT.search(text) else (None, NO_TRACK)


def _tcx(response: Response) -> str:
    try:
        text = response.body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Malformed("a TCX file is not text") from None
    if not _WHOLE_FILE.search(text):
        raise Malformed("a TCX file is incomplete, or is something else")
    return text


async def _summary(http: Http, day: date) -> JsonObject:
    points: list[RollupPoint] = []
    for each in ROLLUPS:
        response = await http.post(
            f"{_POINTS.format(each)}:dailyRollUp", json=_one_day(day), repeatable=True
        )
        found = response.json(RollupPage).of(day)
        if found is not None:
            points.append(found)
    return summary_data(points)


def _one_day(day: date) -> JsonObject:
    return {
        "range": {"start": _midnight(day), "end": _midnight(day + timedelta(days=1))},
        "windowSizeDays": 1,
    }


def _midnight(day: date) -> JsonObject:
    return {"date": {"year": day.year, "month": day.month, "day": day.day}}
