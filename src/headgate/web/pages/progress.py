"""The progress page: how a job goes, for the user whose it is, by a link that was made for it."""

from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import Response

from headgate.base.errors import Conflict
from headgate.flow.job_view import JobStatus
from headgate.ports.auth import CodeAuth
from headgate.toolkit.links import PROGRESS_PATH, ConnectLink, ProgressLink
from headgate.toolkit.pages.rendering import FRAGMENT_HEADER, Pages, etag, tagged
from headgate.toolkit.site import Site
from headgate.web.pages.view import view


class ProgressPage:
    """Shows jobs, and retries them."""

    def __init__(self, site: Site, pages: Pages) -> None:
        """Of the application behind `site`."""
        self._app, self._links = site.app, site.links
        self._origin = origin(site.public_url)
        self._pages = pages

    async def show(self, request: Request) -> Response:
        """The whole page, or the part of it that changes."""
        token = request.path_params["token"]
        link = self._links.open_progress(token)
        status = await self._app.jobs.status(link.job_id, user_id=link.user_id)
        shown = view(
            status, self._app.registry.titles, reconnect_path=self._reconnect(link, status)
        )
        main = self._pages.render("progress_main.html", view=shown, token=token)
        if request.headers.get(FRAGMENT_HEADER):
            return tagged(request, main)
        page = self._pages.render("progress.html", view=shown, main=main, etag=etag(main))
        return tagged(request, page)

    async def retry(self, request: Request) -> Response:
        """Try the job again, and show what became of that."""
        token = request.path_params["token"]
        link = self._links.open_progress(token)
        if not self._from_here(request):
            return self._pages.message(
                403,
                "This came from another site",
                "Nothing was done. Open your link again, and use the button there.",
            )
        try:
            await self._app.jobs.retry_now(link.job_id, user_id=link.user_id)
        except Conflict:
            # It moved on meanwhile, or has ended: the page shows the truth.
            pass
        return self._pages.redirect(f"{PROGRESS_PATH}{token}")

    def _reconnect(self, link: ProgressLink, status: JobStatus) -> str | None:
        """The path to sign in again by, where that is what it takes and a page can do it."""
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
            # No longer than the link it comes from; and so it stays the same, as the page does.
            expires_at=link.expires_at,
        )
        return self._links.again(again)

    def _from_here(self, request: Request) -> bool:
        """Whether one of our own pages sent it: the link alone says who may, not who did."""
        site = request.headers.get("Sec-Fetch-Site")
        if site is not None:
            return site in ("same-origin", "none")
        return request.headers.get("Origin") in (None, self._origin)


def origin(url: str) -> str:
    """The origin of an address, as browsers write it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
