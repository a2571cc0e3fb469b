"""The front page, which says what runs here and where to go, and the page of the API.

Both are for everybody: the first names the systems that are served, and nothing of anybody's; the
second asks for an API key, and shows the API's description to whoever has one.
"""

from fastapi import Request
from fastapi.responses import Response

from headgate.toolkit.pages.rendering import Pages, page_response
from headgate.toolkit.site import Site


class HomePages:
    """The pages that need no link and no API key."""

    def __init__(self, site: Site, pages: Pages) -> None:
        """Describe the site."""
        titles = [system.title for system in site.app.systems.values()]
        # They do not change while the site runs.
        self._home = pages.render("home.html", systems=titles, url=site.public_url)
        self._docs = pages.render("docs.html", url=site.public_url)

    async def home(self, request: Request) -> Response:
        """Return the front page."""
        return page_response(request, self._home)

    async def docs(self, request: Request) -> Response:
        """Return the page that renders the API's description."""
        return page_response(request, self._docs)
