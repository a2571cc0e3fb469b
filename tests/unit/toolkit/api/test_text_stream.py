"""A text that is sent while it is made: whole, broken off by an error, or for nobody any more."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from headgate.base.clock import SystemClock
from headgate.toolkit.api.text_stream import TextStreamResponse


class Wire:
    """What was sent, to a client who goes away after so many pieces."""

    def __init__(self, goes_after: int = 100) -> None:
        self.sent: list[dict[str, Any]] = []
        self._gone = asyncio.Event()
        self._goes_after = goes_after

    async def receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if len(self.sent) > self._goes_after:
            self._gone.set()
            await SystemClock().sleep(0)
            await SystemClock().sleep(0)


made: list[str] = []


async def pieces(*texts: str, fails: bool = False) -> AsyncGenerator[str, None]:
    made.clear()
    try:
        for text in texts:
            made.append(text)
            yield text
        if fails:
            raise ValueError("no more")
    finally:
        made.append("closed")


async def stream(wire: Wire, texts: AsyncGenerator[str, None]) -> None:
    response = TextStreamResponse(texts, media_type="text/csv")
    await response({"type": "http"}, wire.receive, wire.send)


async def test_every_piece_is_sent_and_then_the_end() -> None:
    wire = Wire()
    await stream(wire, pieces("a", "é"))

    start, *bodies = wire.sent
    assert start["status"] == 200
    assert (b"content-type", b"text/csv; charset=utf-8") in start["headers"]
    assert [(each["body"], each["more_body"]) for each in bodies] == [
        (b"a", True),
        ("é".encode(), True),
        (b"", False),
    ]
    assert made == ["a", "é", "closed"]


async def test_an_error_breaks_off_without_an_end() -> None:
    wire = Wire()
    with pytest.raises(ValueError, match="no more"):
        await stream(wire, pieces("a", fails=True))

    assert wire.sent[-1]["more_body"] is True


async def test_nothing_more_is_made_for_a_client_who_is_gone() -> None:
    wire = Wire(goes_after=2)
    await stream(wire, pieces(*"abcdef"))

    assert made == ["a", "b", "c", "closed"]
    assert [each.get("body") for each in wire.sent] == [None, b"a", b"b"]
