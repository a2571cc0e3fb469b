"""Connecting an account: out to the provider's page by a link, and back with what it answered.

Who is being connected to what is in the link, and then in a signed cookie: the same browser must
come back that was sent out. What the provider answers is judged by `flow/connect.py`.
"""

from datetime import timedelta
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from headgate.base.errors import Conflict, Forbidden, InvalidInput, NotFound, SourceError
from headgate.base.secret import random_secret
from headgate.ports.auth import CodeAuth
from headgate.toolkit.links import SESSION_TERM, ConnectLink, LinkExpired, LinkInvalid
from headgate.toolkit.pages.rendering import HEADERS, Button, Pages
from headgate.toolkit.site import Site

BACK_PATH = "/connected/"


class ConnectPages:
    """Sends users out, and takes them back."""

    def __init__(self, site: Site, pages: Pages) -> None:
        """Connect to the sources of the application behind `site`."""
        self._app, self._links = site.app, site.links
        self._public_url = site.public_url.rstrip("/")
        self._secure = site.public_url.startswith("https://")
        # The prefix makes browsers see to it that no neighbour can set the cookie; they allow it
        # over https alone.
        self._cookie = "__Host-headgate" if self._secure else "headgate"
        self._pages = pages

    async def start(self, request: Request) -> Response:
        """Out to the provider's page."""
        link = self._links.open_connect(request.path_params["token"])
        if refusal := self._refusal(link.source):
            return refusal
        nonce = random_secret(self._app.rng).reveal()
        session = self._links.session(link, nonce=nonce)
        try:
            page = await self._app.connections.start(
                link.source,
                user_id=link.user_id,
                session=session,
                redirect_uri=self._redirect_uri(link.source),
                connection_id=link.connection_id,
            )
        except InvalidInput as error:
            return self._not_set_up(link.source, str(error))
        response = RedirectResponse(page, 303, HEADERS)
        self._keep(response, session, SESSION_TERM)
        return response

    async def finish(self, request: Request) -> Response:
        """Back from the provider's page."""
        session = request.cookies.get(self._cookie, "")
        try:
            link = self._links.open_session(session).link
        except (LinkExpired, LinkInvalid):
            return self._stale()
        if link.source != request.path_params["source"]:
            return self._stale(link)
        try:
            await self._app.connections.finish(
                user_id=link.user_id,
                session=session,
                redirect_uri=self._redirect_uri(link.source),
                query=dict(request.query_params),
            )
        except (InvalidInput, NotFound, Conflict, SourceError) as error:
            return self._not_connected(link, error)
        response = await self._go_on(link)
        self._keep(response, "", timedelta(0))
        return response

    # ---- parts ---------------------------------------------------------------------------------

    def _title(self, source: str) -> str:
        return self._app.registry.titles.get(source, source)

    def _redirect_uri(self, source: str) -> str:
        return f"{self._public_url}{BACK_PATH}{quote(source, safe='')}"

    def _keep(self, response: Response, session: str, term: timedelta) -> None:
        response.set_cookie(
            self._cookie,
            session,
            max_age=int(term.total_seconds()),
            path="/",
            secure=self._secure,
            httponly=True,
            # Lax: the way back is a link from the provider's site.
            samesite="lax",
        )

    def _refusal(self, source: str) -> Response | None:
        """What is in the way on our own side."""
        title, auth = self._title(source), self._app.registry.auths.get(source)
        if not isinstance(auth, CodeAuth):
            problem = f"No source {source!r} whose users sign in on a page is declared."
            return self._not_set_up(source, problem)
        uri = self._redirect_uri(source)
        if uri in auth.redirect_uris:
            return None
        return self._not_set_up(
            source,
            f"Add {uri} to the redirect_uris of the source {source!r}, "
            f"and to those that {title} knows of your application.",
        )

    def _not_set_up(self, source: str, problem: str) -> Response:
        """Said to the user, and to whoever can mend it."""
        return self._pages.message(
            500,
            f"{self._title(source)} cannot be connected here yet",
            "This is not your fault, and nothing is lost. Tell those who run this page about it.",
            operator=problem,
            tone="bad",
        )

    async def _go_on(self, link: ConnectLink) -> Response:
        """To the job that waited for this, where there is one."""
        if link.retry_job is None:
            heading = f"{self._title(link.source)} is connected"
            return self._pages.message(200, heading, "You can close this page.", tone="good")
        try:
            await self._app.jobs.retry_now(link.retry_job, user_id=link.user_id)
        except (Conflict, NotFound):
            # It moved on meanwhile, or is gone: its page says so.
            pass
        return self._pages.redirect(self._links.followed_by(link, link.retry_job))

    def _not_connected(self, link: ConnectLink, error: Exception) -> Response:
        title = self._title(link.source)
        match error:
            case InvalidInput(field="state"):
                return self._stale(link)
            case Forbidden():
                heading = f"{title} was not connected"
                text = f"{title} says that access was not given. Without it nothing is imported."
            case Conflict():
                heading = "That is another account"
                text = f"Sign in to {title} with the account that you connected before."
            case NotFound():
                return self._pages.not_found()
            case _:
                heading = f"{title} was not connected"
                text = "Something went wrong on the way. Nothing is lost; try again in a moment."
        return self._pages.message(400, heading, text, button=self._again(link), tone="wait")

    def _stale(self, link: ConnectLink | None = None) -> Response:
        """They took too long, came twice, or came back in another browser."""
        return self._pages.message(
            400,
            "That took too long",
            "Signing in has to be finished within ten minutes, in the same browser, and only once."
            + ("" if link else " Open the link that you were sent again."),
            button=self._again(link) if link else None,
            tone="wait",
        )

    def _again(self, link: ConnectLink) -> Button:
        return Button("Try again", f"{self._pages.base}{self._links.again(link)}")
