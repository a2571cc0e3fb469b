"""Tells responses without an end of their own that their server stops.

A server waits for the responses that it still sends. One that goes on for hours, such as a stream
of events, would keep it from stopping, so it has to know.
"""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: The key of the event in a request's scope.
_STOPPING = "headgate.stopping"


class StoppableSite:
    """A site whose responses can learn that the server stops."""

    def __init__(self, web: "ASGIApp", stopping: asyncio.Event) -> None:
        """Serve `web`; whoever sets `stopping` tells its responses."""
        self._web = web
        self._stopping = stopping

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass the request on, with the event."""
        scope[_STOPPING] = self._stopping
        await self._web(scope, receive, send)


def stopping_of(scope: "Scope") -> asyncio.Event:
    """Return the event that is set when the request's server stops.

    A server that is not ours never sets it: it cancels what takes too long instead.
    """
    found: asyncio.Event = scope.get(_STOPPING) or asyncio.Event()
    return found
