"""Reading streams: both shapes, only what we know, and all of one length."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headgate import Malformed, NoData
from headgate.connectors.strava.streams import KEYS, fetch_streams
from headgate.model.item import JSON, Document
from tests.unit.connectors.fakes import Bench, answer

TIME, HEART = [0, 1, 2], [90, 91, 92]


def stream(data: Any, **fields: Any) -> dict[str, Any]:
    return {"data": data, "series_type": "distance", "original_size": 3, **fields}


async def fetched(body: Any, status: int = 200) -> Document:
    return await fetch_streams(Bench(answer(status, body)).http, "12")


async def test_the_nine_channels_are_asked_for_by_type() -> None:
    bench = Bench(answer(body={"time": stream(TIME)}))

    await fetch_streams(bench.http, "12")

    [request] = bench.transport.requests
    assert urlsplit(request.url).path == "/v1/activities/12/streams"
    query = parse_qs(urlsplit(request.url).query)
    assert query == {"keys": [",".join(KEYS)], "key_by_type": ["true"]}
    assert len(KEYS) == 9
    # And not while the limiter is away
    assert not bench.gate.asked[0]["essential"]


@pytest.mark.parametrize(
    "body",
    [
        {"time": stream(TIME), "heartrate": stream(HEART)},
        [stream(HEART, type="heartrate"), stream(TIME, type="time")],
        # A channel that was not asked for is left out.
        {"time": stream(TIME), "heartrate": stream(HEART), "watts": stream([1]), "x": stream([])},
    ],
    ids=["object", "list", "more"],
)
async def test_both_shapes_give_the_same_document(body: Any) -> None:
    document = await fetched(body)

    assert (document.media_type, document.body) == (
        JSON,
        b'{"heartrate":[90,91,92],"time":[0,1,2]}',
    )
    assert document.attributes == {"channels": ("heartrate", "time"), "point_count": 3}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 200),
        ([], 200),
        ({"time": stream([])}, 200),
        ({"watts": stream([1])}, 200),
        ({"message": "Resource Not Found", "errors": []}, 404),
    ],
    ids=["no object", "no list", "no points", "nothing that we know", "404"],
)
async def test_where_there_is_nothing_that_is_an_answer(body: Any, status: int) -> None:
    with pytest.raises(NoData):
        await fetched(body, status)


@pytest.mark.parametrize(
    "body",
    [
        {"time": stream(TIME), "heartrate": stream([])},
        {"time": stream("012")},
        {"time": {}},
        {"message": "Error", "errors": []},
        [stream(TIME)],
        [1],
        "streams",
        b"<html>",
        b'{"time": {"data": [0, 1',
    ],
    ids=str,
)
async def test_what_does_not_fit_is_malformed(body: Any) -> None:
    with pytest.raises(Malformed):
        await fetched(body)


async def test_channels_of_different_lengths_are_told_with_their_lengths() -> None:
    with pytest.raises(Malformed, match="heartrate 1, time 3"):
        await fetched({"time": stream(TIME), "heartrate": stream([90])})
