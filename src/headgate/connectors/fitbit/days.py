"""The source that reads one day from Fitbit: the exercises with their TCX files, and the totals.

Exercises go to the destination; the day's summary stays in Headgate. An exercise without a file
stays in Headgate too, with the reason.
"""

import re
from collections.abc import AsyncIterator, Collection, Iterator
from datetime import date, timedelta

from headgate.base.encoding import JsonObject
from headgate.base.errors import Malformed, Terminal
from headgate.connectors.fitbit.api import GoogleFault
from headgate.connectors.fitbit.shapes import (
    ExercisePage,
    ExercisePoint,
    RollupPage,
    exercise_data,
    summary_data,
)
from headgate.connectors.http.paging import NextToken
from headgate.connectors.http.source import ApiSource
from headgate.model.record import Record
from headgate.model.states import ReceiptState
from headgate.ports.connector import Chunk, Context
from headgate.ports.http import Http
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
_DAY = timedelta(days=1)


class FitbitDays(ApiSource):
    """The source: each chunk is one day."""

    async def read(self, ctx: Context) -> Chunk:
        """Return the day's exercises for the destination, and the records that stay here."""
        if ctx.day is None:
            raise Terminal("Fitbit is read day by day: submit the job in mode history")
        # A file that was refused is tried again: who starts an import may have corrected it.
        return await read_days(ctx, ctx.day, ctx.day, but={ReceiptState.TAKEN})


async def read_days(
    ctx: Context, first: date, last: date, *, but: Collection[ReceiptState]
) -> Chunk:
    """Return the records of these days, without exercises in one of the states of `but`.

    An exercise that the destination has already is not exported again.
    """
    points = [point async for point in _exercises(ctx.http, first, last)]
    receipts = await ctx.receipts([_key(point) for point in points])
    records, kept = [], []
    for point in points:
        if receipts.get(_key(point)) in but:
            continue
        data, (tcx, why) = exercise_data(point), await _export(ctx.http, point)
        if tcx is not None:
            records.append(Record(_key(point), {**data, "tcx": tcx}))
        else:
            kept.append(Record(_key(point), {**data, "not_exported": why}))
    async for day, summary in _summaries(ctx.http, first, last):
        kept.append(Record(f"day:{day}", {"day": str(day), **summary}))
    before = sum(state is ReceiptState.TAKEN for state in receipts.values())
    return Chunk(records=records, kept=kept, delivered_before=before)


def _key(point: ExercisePoint) -> str:
    return f"exercise:{point.id}"


async def _exercises(http: Http, first: date, last: date) -> AsyncIterator[ExercisePoint]:
    """Yield the exercises that began on these days, in the person's own time zone."""
    field = "exercise.interval.civil_start_time"
    params = {
        "filter": f'{field} >= "{first}" AND {field} < "{last + _DAY}"',
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


async def _summaries(http: Http, first: date, last: date) -> AsyncIterator[tuple[date, JsonObject]]:
    """Yield the totals of the days that have any."""
    pages: list[RollupPage] = []
    for each in ROLLUPS:
        response = await http.post(
            f"{_POINTS.format(each)}:dailyRollUp", json=_daily(first, last), repeatable=True
        )
        pages.append(response.json(RollupPage))
    for day in _each_day(first, last):
        found = (page.of(day) for page in pages)
        summary = summary_data(point for point in found if point is not None)
        if summary:
            yield day, summary


def _each_day(first: date, last: date) -> Iterator[date]:
    return (first + number * _DAY for number in range((last - first).days + 1))


def _daily(first: date, last: date) -> JsonObject:
    return {
        "range": {"start": _midnight(first), "end": _midnight(last + _DAY)},
        "windowSizeDays": 1,
    }


def _midnight(day: date) -> JsonObject:
    return {"date": {"year": day.year, "month": day.month, "day": day.day}}
