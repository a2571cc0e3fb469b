"""A router for pages: when one cannot be shown, the visitor gets a page that says why."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headgate.base.errors import NotFound, StoreUnavailable
from headgate.secrets.links import LinkExpired
from headgate.toolkit.pages.rendering import Pages

Handler = Callable[[Request], Awaitable[Response]]


class PageRouter(APIRouter):
    """Routes of pages, which are not part of the API's description."""

    def __init__(self, pages: Pages) -> None:
        """Show errors with the templates of `pages`."""
        super().__init__()
        self._pages = pages

    def add(self, path: str, handler: Handler, *methods: str) -> None:
        """Let `handler` answer requests to `path`."""
        self.add_api_route(
            path,
            _with_error_pages(handler, self._pages),
            methods=list(methods),
            include_in_schema=False,
        )


def _with_error_pages(handler: Handler, pages: Pages) -> Handler:
    """Wrap the handler: each expected error becomes a page."""

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
                503,
                "Just a moment",
                "The database does not answer right now. Try again in a minute.",
            )
            response.headers["Retry-After"] = "30"
            return response

    return guarded
