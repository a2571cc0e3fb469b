"""The page on which users turn notifications off and on; a signed link in each e-mail opens it."""

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from headgate.base.errors import NotFound
from headgate.model.user import Preferences
from headgate.secrets.links import OPT_OUT_PATH
from headgate.toolkit.pages.rendering import HEADERS, Pages
from headgate.toolkit.site import Site


class NotificationsPage:
    """Turns the notifications of one user off and on."""

    def __init__(self, site: Site, pages: Pages) -> None:
        """Serve the users of the site's application."""
        self._app, self._links = site.app, site.links
        self._pages = pages

    async def show(self, request: Request) -> Response:
        """Return the page; it changes nothing, because mail programs open links by themselves."""
        link = self._links.open_opt_out(request.path_params["token"])
        try:
            preferences = (await self._app.users.get(link.user_id)).preferences
        except NotFound:
            preferences = Preferences()
        return self._page(request, is_on=preferences.notify)

    async def turn_off(self, request: Request) -> Response:
        """Turn notifications off, by the button or by a mail program's own (RFC 8058).

        It comes from anywhere, so the link alone is enough; and it is not redirected.
        """
        return await self._turn(request, on=False)

    async def turn_on(self, request: Request) -> Response:
        """Turn notifications on again."""
        return await self._turn(request, on=True)

    async def _turn(self, request: Request, *, on: bool) -> Response:
        link = self._links.open_opt_out(request.path_params["token"])
        user = await self._app.users.set_preferences(link.user_id, notify=on)
        return self._page(request, is_on=user.preferences.notify)

    def _page(self, request: Request, *, is_on: bool) -> Response:
        path = f"{self._pages.base}{OPT_OUT_PATH}{request.path_params['token']}"
        action = path if is_on else f"{path}/on"
        return HTMLResponse(
            self._pages.render("notifications.html", is_on=is_on, action=action), headers=HEADERS
        )
