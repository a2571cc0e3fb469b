"""A response whose text is sent while it is made, so that its size does not matter."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headgate.toolkit.api.event_stream import VARY, wait_until_gone


class TextStreamResponse(Response):
    """Sends pieces of text, until there are no more or the client is gone.

    An error in the middle breaks the connection off, by which the client knows that it has not got
    everything. It waits while the client is slow.
    """

    def __init__(self, pieces: AsyncGenerator[str, None], *, media_type: str) -> None:
        """Send `pieces`."""
        self.status_code = 200
        self.background = None
        self.media_type = media_type
        self.init_headers({"Cache-Control": "no-store", **VARY})
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        gone = asyncio.create_task(wait_until_gone(receive), name="client is gone")
        try:
            async for piece in self._pieces:
                if gone.done():
                    return
                body = piece.encode()
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            await self._pieces.aclose()
