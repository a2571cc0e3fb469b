"""The paths of the pages that every application has."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import Request
from fastapi.responses import Response

from headgate.secrets.links import CONNECT_PATH, OPT_OUT_PATH, PROGRESS_PATH
from headgate.toolkit.api.problems import problem_response
from headgate.toolkit.pages import assets
from headgate.toolkit.pages.rendering import Button, Pages
from headgate.toolkit.pages.router import PageRouter
from headgate.toolkit.site import Site
from headgate.web.pages.connect import BACK_PATH, ConnectPages
from headgate.web.pages.home import HomePages
from headgate.web.pages.notifications import NotificationsPage
from headgate.web.pages.progress import ProgressPage

FOLDER = Path(__file__).parents[1]

Handler = Callable[[Request, Exception], Awaitable[Response]]


def pages_router(site: Site) -> PageRouter:
    """Return the routes of the pages."""
    pages = Pages(site, FOLDER)
    progress, connect = ProgressPage(site, pages), ConnectPages(site, pages)
    notifications = NotificationsPage(site, pages)
    home = HomePages(site, pages)
    router = PageRouter(pages)
    router.add("/", home.home, "GET", "HEAD")
    router.add("/docs", home.docs, "GET", "HEAD")
    router.add(f"{PROGRESS_PATH}{{token}}", progress.show, "GET", "HEAD")
    router.add(f"{PROGRESS_PATH}{{token}}/retry", progress.retry, "POST")
    router.add(f"{OPT_OUT_PATH}{{token}}", notifications.show, "GET", "HEAD")
    router.add(f"{OPT_OUT_PATH}{{token}}", notifications.turn_off, "POST")
    router.add(f"{OPT_OUT_PATH}{{token}}/on", notifications.turn_on, "POST")
    router.add(f"{CONNECT_PATH}{{token}}", connect.start, "GET")
    router.add(f"{BACK_PATH}{{source}}", connect.finish, "GET")
    router.add(assets.PATH, site.assets.serve, "GET", "HEAD")
    return router


def unknown_path(site: Site) -> Handler:
    """Return what answers requests for a path that there is not: people get a page."""
    pages = Pages(site, FOLDER)
    page = (404, "There is nothing here", "The address is wrong, or what was here is gone.")
    button = Button("See what runs here", f"{pages.base}/")

    async def answer(request: Request, error: Exception) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return pages.message(*page, button=button)
        return problem_response(request, error)

    return answer
