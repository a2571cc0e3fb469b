"""The page of one article, for whoever has the link."""

from pathlib import Path

from fastapi import Request
from fastapi.responses import Response

from headgate.toolkit import Site, note_visit
from headgate.toolkit.pages import PageRouter, Pages, page_response

from .articles import describe_articles

#: What links to an article's page are for, and where that page is.
LINK, PATH = "article", "/reading/"


def pages(site: Site) -> PageRouter:
    """The pages of this system, on `site`."""
    rendered = Pages(site, Path(__file__).parent)

    async def show(request: Request) -> Response:
        # A link that is no good raises, and so does one to what is gone: the router answers both.
        link = site.links.open_page(LINK, request.path_params["token"])
        served = await site.app.items.serve(link.id, user_id=link.user_id)
        await note_visit(site.app, request, link.user_id)
        [article] = await describe_articles(site.app, [served.item])
        text = "" if served.document is None else served.document.content().decode()
        return page_response(request, rendered.render("article.html", article=article, text=text))

    router = PageRouter(rendered)
    router.add(f"{PATH}{{token}}", show, "GET", "HEAD")
    return router
