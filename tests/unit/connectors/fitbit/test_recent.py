"""Reading recent days: which, in how many chunks, and what the next job begins with."""

from datetime import date, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headgate import (
    Chunk,
    ChunkEvent,
    InvalidInput,
    Malformed,
    Mode,
    Progress,
    ReceiptState,
    Secret,
    Terminal,
)
from headgate.connectors.fitbit import FitbitRecent, fitbit
from headgate.connectors.fitbit.recent import DAYS_LEFT_OUT, DAYS_MAX
from tests.unit.connectors.fitbit.reading import Google, context, steps_of

API = fitbit(client_id="1", client_secret=Secret("s"))


def today_of(google: Google) -> date:
    """The day on which the job runs, in UTC."""
    return context(google).clock.now().date()


async def read(google: Google, days: int = 3, **fields: Any) -> Chunk:
    return await FitbitRecent(days=days, **API).read(context(google, **fields))


def listed(google: Google) -> list[tuple[str, str]]:
    """The first day of each list of exercises, and the day after the last."""
    queries = [
        parse_qs(urlsplit(each.url).query)["filter"][0]
        for each in google.asked
        if "filter=" in each.url
    ]
    return [(each.split('"')[1], each.split('"')[3]) for each in queries]


def back(google: Google, days: int) -> date:
    return today_of(google) - timedelta(days=days)


async def test_the_last_days_are_read_in_one_chunk_of_seven_requests() -> None:
    google = Google()
    today = today_of(google)
    google.rollups["steps"] = steps_of(today, back(google, 1))

    chunk = await read(google)

    # Then tomorrow is among them: east of Greenwich it has begun
    assert listed(google) == [(str(back(google, 2)), str(today + timedelta(days=2)))]
    assert len(google.asked) == 7
    assert [each.key for each in chunk.kept] == [f"day:{back(google, 1)}", f"day:{today}"]
    assert chunk.cursor is None
    assert chunk.progress == Progress(done=4, total=4, at=str(back(google, 2)))


async def test_what_strava_has_or_has_refused_is_left_alone() -> None:
    google = Google()
    google.has_exercises(1, 2, 3)
    receipts = {"exercise:1": ReceiptState.TAKEN, "exercise:3": ReceiptState.REFUSED}

    chunk = await read(google, receipts=receipts)

    assert google.exported() == ["2"]
    assert [each.key for each in chunk.records] == ["exercise:2"]
    assert (chunk.delivered_before, chunk.kept) == (1, [])


async def test_a_job_goes_on_where_the_last_one_ended() -> None:
    google = Google()
    # Given that the last job was twelve days ago
    chunk = await read(google, mode=Mode.SINCE, high_water=str(back(google, 12)))

    # Then it reads from three days before that, the newest week first
    chunks = [chunk]
    while chunk.cursor is not None:
        assert chunk.high_water is None
        chunk = await read(google, mode=Mode.SINCE, cursor=chunk.cursor)
        chunks.append(chunk)
    assert listed(google) == [
        (str(back(google, 5)), str(back(google, -2))),
        (str(back(google, 12)), str(back(google, 5))),
        (str(back(google, 14)), str(back(google, 12))),
    ]
    done = [each.progress.done for each in chunks if each.progress is not None]
    assert done == [7, 14, 16]
    # And the next job begins here
    assert chunks[-1].high_water == str(today_of(google))
    assert all(each.events == () for each in chunks)


@pytest.mark.parametrize("marked", [True, False], ids=["a mark of today", "the first job"])
async def test_mode_since_reads_at_least_the_recent_days_and_leaves_a_mark(marked: bool) -> None:
    google = Google()
    mark = str(today_of(google)) if marked else None

    chunk = await read(google, mode=Mode.SINCE, high_water=mark)

    assert listed(google)[0][0] == str(back(google, 2))
    assert chunk.high_water == str(today_of(google))


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.SINCE])
async def test_a_job_that_was_told_its_days_leaves_no_mark(mode: Mode) -> None:
    # Else the days between the last mark and these would never be read.
    google = Google()
    since = context(google).clock.now() if mode is Mode.SINCE else None

    chunk = await read(google, mode=mode, since=since)

    assert chunk.high_water is None
    assert listed(google)[0][0] == str(back(google, 0 if since else 2))


async def test_days_that_are_too_long_ago_are_left_out_and_the_job_says_so() -> None:
    google = Google()

    chunk = await read(google, mode=Mode.SINCE, high_water=str(back(google, 40)))

    left_out = {"first": str(back(google, 42)), "last": str(back(google, DAYS_MAX))}
    assert chunk.events == (ChunkEvent(DAYS_LEFT_OUT, left_out),)
    assert chunk.progress is not None
    assert chunk.progress.total == DAYS_MAX + 1


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"mode": Mode.HISTORY}, Terminal, "mode full or since"),
        ({"mode": Mode.LIMIT}, Terminal, "mode full or since"),
        ({"cursor": {"first": "x"}}, Malformed, "cannot be read"),
        ({"mode": Mode.SINCE, "high_water": 7}, Malformed, "cannot be read"),
        ({"days": 0}, InvalidInput, "days"),
        ({"days": DAYS_MAX + 1}, InvalidInput, "days"),
    ],
)
async def test_other_modes_strange_marks_and_numbers_of_days_are_refused(
    fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        await read(Google(), **fields)
