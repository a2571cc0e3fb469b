"""A router for pages: each has a page for every way in which it may come to nothing."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headgate.base.errors import NotFound, StoreUnavailable
from headgate.toolkit.links import LinkExpired
from headgate.toolkit.pages.rendering import Pages

Handler = Callable[[Request], Awaitable[Response]]


class PageRouter(APIRouter):
    """Routes for people; they are no part of the API, and not in its description."""

    def __init__(self, pages: Pages) -> None:
        """Errors are told by `pages`."""
        super().__init__()
        self._pages = pages

    def add(self, path: str, handler: Handler, *methods: str) -> None:
        """Let `handler` answer requests to `path`."""
        self.add_api_route(
            path, _guarded(handler, self._pages), methods=list(methods), include_in_schema=False
        )


def _guarded(handler: Handler, pages: Pages) -> Handler:
    """The same, with a page for each way in which it may come to nothing."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except LinkExpired:
            return pages.message(
                410, "This link has expired", "Ask for a new one where you got it.", tone="wait"
            )
        except NotFound:
            return pages.not_found()
        except StoreUnavailable:
            response = pages.message(
                503, "Just a moment", "We cannot look right now. Try again in a minute."
            )
            response.headers["Retry-After"] = "30"
            return response

    return guarded
