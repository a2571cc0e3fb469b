"""The pages that connect an account: to the provider's page by a link, and back with its answer.

The link says which user connects which source. A signed cookie carries that through the provider's
page, so the browser that comes back must be the one that left. `flow/connections/service.py` judges
the answer.
"""

from datetime import timedelta
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from headgate.base.errors import Conflict, Forbidden, InvalidInput, NotFound, SourceError
from headgate.base.secret import random_secret
from headgate.ports.connections.auth import CodeAuth
from headgate.secrets.links import SESSION_TERM, ConnectLink, LinkExpired, LinkInvalid
from headgate.toolkit.pages.rendering import HEADERS, Button, Pages
from headgate.toolkit.site import Site
from headgate.toolkit.visits import note_visit

BACK_PATH = "/connected/"


class ConnectPages:
    """Sends users to a provider's page, and receives them when they come back."""

    def __init__(self, site: Site, pages: Pages) -> None:
        """Serve the sources of the site's application."""
        self._app, self._links = site.app, site.links
        self._public_url = site.public_url.rstrip("/")
        self._secure = site.public_url.startswith("https://")
        # With the `__Host-` prefix, browsers let no other subdomain set the cookie; they allow it
        # over https only.
        self._cookie = "__Host-headgate" if self._secure else "headgate"
        self._pages = pages

    async def start(self, request: Request) -> Response:
        """Redirect the user to the provider's page."""
        link = self._links.open_connect(request.path_params["token"])
        if refusal := self._refusal(link.source):
            return refusal
        nonce = random_secret(self._app.rng).reveal()
        session = self._links.session_token(link, nonce=nonce)
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
        await note_visit(self._app, request, link.user_id)
        response = RedirectResponse(page, 303, HEADERS)
        self._keep(response, session, SESSION_TERM)
        return response

    async def finish(self, request: Request) -> Response:
        """Connect the account of a user who comes back from the provider's page."""
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
            # Lax: the user comes back by a link on the provider's site.
            samesite="lax",
        )

    def _refusal(self, source: str) -> Response | None:
        """Return a page if the source is not set up to be connected here."""
        title, auth = self._title(source), self._app.registry.auths.get(source)
        if not isinstance(auth, CodeAuth):
            problem = f"The app declares no source {source!r} whose users sign in on a page."
            return self._not_set_up(source, problem)
        uri = self._redirect_uri(source)
        if uri in auth.redirect_uris:
            return None
        return self._not_set_up(
            source,
            f"Add {uri} to the redirect_uris of the source {source!r}, "
            f"and to the redirect URIs of your application at {title}.",
        )

    def _not_set_up(self, source: str, problem: str) -> Response:
        """Return the page for a set-up error, with a note for the operator."""
        return self._pages.message(
            500,
            f"{self._title(source)} cannot be connected here yet",
            "This is not your fault, and nothing is lost. Please tell those who run this site.",
            operator=problem,
            tone="bad",
        )

    async def _go_on(self, link: ConnectLink) -> Response:
        """Retry the job that waited for the connection, if there is one, and show its page."""
        if link.retry_job is None:
            heading = f"{self._title(link.source)} is connected"
            return self._pages.message(200, heading, "You can close this page.", tone="good")
        try:
            await self._app.jobs.retry_now(link.retry_job, user_id=link.user_id)
        except (Conflict, NotFound):
            # The job has moved on or is gone; its page says so.
            pass
        return self._pages.redirect(self._links.progress_path_after(link, link.retry_job))

    def _not_connected(self, link: ConnectLink, error: Exception) -> Response:
        title = self._title(link.source)
        match error:
            case InvalidInput(field="state"):
                return self._stale(link)
            case Forbidden():
                heading = f"{title} was not connected"
                text = f"{title} says that access was not allowed. Without it we import nothing."
            case Conflict():
                heading = f"That is a different {title} account"
                text = "Sign in with the account that you connected before."
            case NotFound():
                return self._pages.not_found()
            case _:
                heading = f"{title} was not connected"
                text = "Something went wrong on the way. Nothing is lost; try again in a moment."
        return self._pages.message(400, heading, text, button=self._again(link), tone="wait")

    def _stale(self, link: ConnectLink | None = None) -> Response:
        """Return the page for a user who took too long, came twice, or changed the browser."""
        return self._pages.message(
            400,
            "Signing in was not finished",
            "You have ten minutes to sign in, in the same browser, and once per try."
            + ("" if link else " Open the link that you were sent again."),
            button=self._again(link) if link else None,
            tone="wait",
        )

    def _again(self, link: ConnectLink) -> Button:
        return Button("Try again", f"{self._pages.base}{self._links.path_of(link)}")
