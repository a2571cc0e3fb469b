"""The paths of the pages that every application has."""

from pathlib import Path

from headgate.toolkit.links import CONNECT_PATH, OPT_OUT_PATH, PROGRESS_PATH
from headgate.toolkit.pages import assets
from headgate.toolkit.pages.rendering import Pages
from headgate.toolkit.pages.router import PageRouter
from headgate.toolkit.site import Site
from headgate.web.pages.connect import BACK_PATH, ConnectPages
from headgate.web.pages.home import HomePages
from headgate.web.pages.notifications import NotificationsPage
from headgate.web.pages.progress import ProgressPage

FOLDER = Path(__file__).parents[1]


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
