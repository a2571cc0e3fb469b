"""Which path leads to which page, and what becomes of a link that opens nothing."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headgate.base.errors import NotFound, StoreUnavailable
from headgate.web.api.activities.links import ACTIVITY_PATH
from headgate.web.links import CONNECT_PATH, PROGRESS_PATH, LinkExpired
from headgate.web.pages.activity import ActivityPage
from headgate.web.pages.connect import BACK_PATH, ConnectPages
from headgate.web.pages.progress import ProgressPage
from headgate.web.pages.rendering import Pages
from headgate.web.site import Site

Handler = Callable[[Request], Awaitable[Response]]


def pages_router(site: Site) -> APIRouter:
    """The pages for end users, on `site`."""
    pages = Pages(site.public_url)
    progress, connect = ProgressPage(site, pages), ConnectPages(site, pages)
    activity = ActivityPage(site, pages)
    router = APIRouter()

    def add(path: str, handler: Handler, *methods: str) -> None:
        # Pages are no part of the API, and not in its description.
        router.add_api_route(
            path, _guarded(handler, pages), methods=list(methods), include_in_schema=False
        )

    add(f"{PROGRESS_PATH}{{token}}", progress.show, "GET", "HEAD")
    add(f"{PROGRESS_PATH}{{token}}/retry", progress.retry, "POST")
    add(f"{CONNECT_PATH}{{token}}", connect.start, "GET")
    add(f"{BACK_PATH}{{source}}", connect.finish, "GET")
    add(f"{ACTIVITY_PATH}{{token}}", activity.show, "GET", "HEAD")
    add(f"{ACTIVITY_PATH}{{token}}/streams", activity.streams, "GET", "HEAD")
    add("/static/{version}/{name}", pages.assets.serve, "GET", "HEAD")
    return router


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
