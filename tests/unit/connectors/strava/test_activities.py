"""Reading activities: what must be there is checked, and everything else is kept as it is."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headgate import Malformed, NoData
from headgate.connectors.strava.activities import (
    PER_PAGE,
    list_activities,
    parse_activity,
    read_activity,
)
from tests.unit.connectors.fakes import Bench, answer

START = datetime(2026, 1, 5, 6, 30, tzinfo=UTC)
GONE = answer(404, {"message": "Resource Not Found", "errors": []})


def shown(**fields: Any) -> dict[str, Any]:
    return {"id": 12, "start_date": "2026-01-05T06:30:00Z", "name": "Run", **fields}


def test_what_must_be_known_is_read_and_the_rest_is_kept() -> None:
    found = parse_activity(shown(manual=False, map={"polyline": "x"}))

    assert (found.id, found.start, found.manual, found.streams_id) == (12, START, False, "12")
    assert found.data == shown(manual=False, map={"polyline": "x"})
    # A start is a moment in UTC, however it is written.
    for start_date in ("2026-01-05T06:30:00", "2026-01-05T08:30:00+02:00"):
        found = parse_activity(shown(start_date=start_date))
        assert (found.start, found.start.tzinfo) == (START, UTC)
    # What was entered by hand has no streams to ask for.
    assert parse_activity(shown(manual=True)).streams_id is None


@pytest.mark.parametrize(
    "fields", [{"id": None}, {"id": "twelve"}, {"start_date": None}, {"start_date": "today"}]
)
def test_an_activity_without_what_must_be_known_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="an activity that cannot be read"):
        parse_activity(shown(**fields))


async def test_a_page_is_asked_for_by_moments_and_comes_newest_first() -> None:
    older = shown(id=1, start_date="2026-01-04T06:30:00Z")
    bench = Bench(answer(body=[older, shown(id=2)]))

    found = await list_activities(bench.http, before=START, after=datetime(2026, 1, 1, tzinfo=UTC))

    assert [each.id for each in found] == [2, 1]
    [request] = bench.transport.requests
    assert parse_qs(urlsplit(request.url).query) == {
        "per_page": [str(PER_PAGE)],
        "page": ["1"],
        "before": [str(int(START.timestamp()))],
        "after": ["1767225600"],
    }
    # And live work may ask for it while the limiter is away
    assert bench.gate.asked[0]["essential"]


@pytest.mark.parametrize("body", [b"<html>", {"message": "x", "errors": []}, [1], [{"id": 1}]])
@pytest.mark.fault(34)
async def test_an_error_under_status_200_is_malformed(body: Any) -> None:
    with pytest.raises(Malformed):
        await list_activities(Bench(answer(body=body)).http)
    with pytest.raises(Malformed):
        await read_activity(Bench(answer(body=body)).http, "12")


async def test_an_activity_comes_with_its_laps() -> None:
    bench = Bench(answer(body=shown(laps="few")), answer(body=[{"lap_index": 1}]))

    assert await read_activity(bench.http, "12") == shown(laps=[{"lap_index": 1}])
    paths = [urlsplit(each.url).path for each in bench.transport.requests]
    assert paths == ["/v1/activities/12", "/v1/activities/12/laps"]
    assert [each["essential"] for each in bench.gate.asked] == [True, True]


async def test_what_was_entered_by_hand_or_lost_its_laps_has_none_and_gone_is_no_data() -> None:
    by_hand = Bench(answer(body=shown(manual=True)))

    assert (await read_activity(by_hand.http, "12"))["laps"] == []
    assert len(by_hand.transport.requests) == 1
    assert (await read_activity(Bench(answer(body=shown()), GONE).http, "12"))["laps"] == []
    with pytest.raises(NoData):
        await read_activity(Bench(GONE).http, "12")
