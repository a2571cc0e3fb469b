"""Frames, what an `Accept` header asks for, and the streams that a key may have open."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.toolkit.api.problems import ProblemError
from headgate.toolkit.api.streams.event_stream import (
    EventStreamResponse,
    EventStreams,
    Pages,
    encode_frame,
    events_response,
    wants_stream,
)

CLOCK = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


class StoppedClock(ManualClock):
    """A clock on which no rest is ever over."""

    async def sleep(self, seconds: float) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()


def test_a_frame_is_one_line_a_field_whatever_its_data_holds() -> None:
    frame = encode_frame("line_read", {"text": "one\r\ntwo\n\ndata: x", "é": None}, id=7)

    data = '{"text":"one\\r\\ntwo\\n\\ndata: x","é":null}'
    assert frame == f"event: line_read\ndata: {data}\nid: 7\n\n".encode()


def test_a_frame_without_an_id_leaves_the_clients_place_as_it_is() -> None:
    assert encode_frame("end", {}) == b"event: end\ndata: {}\n\n"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream ; Q=0.5", True),
        ("application/json;q=0.5, text/event-stream", True),
        ("application/json, text/event-stream", True),
        ("text/event-stream;charset=utf-8", True),
        ("application/json, text/event-stream;q=0.9", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=", False),
        ("text/event-stream;q=nan", False),
        ("text/event-stream;q=much", False),
        ("text/event-streams", False),
        ("text/*", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_a_stream_is_wanted_where_it_is_named(accept: str, wanted: bool) -> None:
    assert wants_stream(accept) is wanted


def test_places_are_given_back_however_a_stream_ends() -> None:
    streams = EventStreams(CLOCK, per_key=2)

    with streams.place("key_1"), streams.place("key_1"), streams.place("key_2"):
        with pytest.raises(ProblemError) as refused, streams.place("key_1"):
            pass
        assert (streams.count("key_1"), streams.count("key_2")) == (2, 1)
    with pytest.raises(OSError), streams.place("key_1"):
        raise OSError

    assert refused.value.kind.code == "too_many_streams"
    assert streams.count("key_1") == 0


async def test_a_stream_that_cannot_be_sent_any_more_holds_nothing() -> None:
    # Given a server that raises where a client is gone, as some do
    sent: list[Any] = []
    closed = asyncio.Event()

    async def pages() -> Pages:
        try:
            while True:
                yield encode_frame("tick", {})
        finally:
            closed.set()

    async def send(message: Any) -> None:
        if len(sent) == 4:
            raise OSError("gone")
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    # When it sends a stream without an end
    streams = EventStreams(StoppedClock(CLOCK.now()))
    response = EventStreamResponse(pages(), streams=streams, key_id="key_1")
    with pytest.raises(OSError, match="gone"):
        await response({"type": "http"}, receive, send)

    # Then the stream is over, and what it held is free
    assert len(sent) == 4 and closed.is_set()
    assert streams.count("key_1") == 0


def test_the_document_shows_frames_as_they_are_sent() -> None:
    content = events_response(encode_frame("submitted", {}, id=1))["content"]

    [example] = content["text/event-stream"]["examples"].values()
    assert example["value"] == "retry: 2000\n\nevent: submitted\ndata: {}\nid: 1\n\n"
