"""The progress page: shows a job to its user, who comes by a signed link."""

from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import Response

from headgate.base.errors import Conflict
from headgate.flow.jobs.view import JobStatus
from headgate.ports.connections.auth import CodeAuth
from headgate.secrets.links import PROGRESS_PATH, ConnectLink, ProgressLink
from headgate.toolkit.pages.rendering import FRAGMENT_HEADER, Pages, etag, page_response
from headgate.toolkit.site import Site
from headgate.toolkit.visits import note_visit
from headgate.web.pages.view import progress_view


class ProgressPage:
    """Shows a job, and retries it."""

    def __init__(self, site: Site, pages: Pages) -> None:
        """Serve the jobs of the site's application."""
        self._app, self._links = site.app, site.links
        self._origin = origin(site.public_url)
        self._pages = pages

    async def show(self, request: Request) -> Response:
        """Return the whole page, or only the part that changes."""
        token = request.path_params["token"]
        link = self._links.open_progress(token)
        status = await self._app.jobs.status(link.job_id, user_id=link.user_id)
        await note_visit(self._app, request, link.user_id)
        shown = progress_view(
            status, self._app.registry.titles, reconnect_path=self._reconnect(link, status)
        )
        main = self._pages.render("progress_main.html", view=shown, token=token)
        if request.headers.get(FRAGMENT_HEADER):
            return page_response(request, main)
        page = self._pages.render("progress.html", view=shown, main=main, etag=etag(main))
        return page_response(request, page)

    async def retry(self, request: Request) -> Response:
        """Retry the job, and show its page."""
        token = request.path_params["token"]
        link = self._links.open_progress(token)
        if not self._from_here(request):
            return self._pages.message(
                403,
                "This request came from another site",
                "Nothing was changed. Open your link again, and use the button on that page.",
            )
        try:
            await self._app.jobs.retry_now(link.job_id, user_id=link.user_id)
        except Conflict:
            # The job has moved on or ended; the page shows its present state.
            pass
        return self._pages.redirect(f"{PROGRESS_PATH}{token}")

    def _reconnect(self, link: ProgressLink, status: JobStatus) -> str | None:
        """Return the path to sign in again, if the job needs that and a page can do it."""
        wanted = status.reconnect
        if wanted is None:
            return None
        if not isinstance(self._app.registry.auths.get(wanted.provider), CodeAuth):
            return None
        again = ConnectLink(
            source=wanted.provider,
            user_id=link.user_id,
            connection_id=wanted.connection_id,
            retry_job=link.job_id,
            # Expires with the page's own link, so the page stays the same between two polls.
            expires_at=link.expires_at,
        )
        return self._links.path_of(again)

    def _from_here(self, request: Request) -> bool:
        """Whether our own page sent the request; the link alone does not prove that."""
        site = request.headers.get("Sec-Fetch-Site")
        if site is not None:
            return site in ("same-origin", "none")
        return request.headers.get("Origin") in (None, self._origin)


def origin(url: str) -> str:
    """Return the origin of a URL, as browsers write it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
