"""Visits to the pages without a browser or a network, in virtual time."""

from collections.abc import Mapping

from fastapi import FastAPI

from headgate import App
from headgate.base.clock import Clock
from headgate.connectors import Response
from headgate.ports.transport import Headers, Request
from headgate.secrets.keys import KeyRing
from headgate.secrets.links import Links
from headgate.testing.asgi_transport import AsgiTransport
from headgate.toolkit.site import Site
from headgate.web.pages.router import pages_router

HERE = "https://sync.example"


def site_of(app: App, public_url: str = HERE) -> Site:
    """The application on the web."""
    return Site(app=app, links=Links(KeyRing.for_demo(), app.clock), public_url=public_url)


def pages_of(site: Site) -> FastAPI:
    """A server of nothing but the pages."""
    server = FastAPI(openapi_url=None)
    server.include_router(pages_router(site))
    return server


class Visitor:
    """A client that follows nothing by itself and keeps no cookies."""

    def __init__(self, site: Site, clock: Clock) -> None:
        self._wire = AsgiTransport({HERE: pages_of(site)}, clock)

    async def get(self, path: str, **headers: str) -> Response:
        """GET; a header's name is written with underscores."""
        return await self._send("GET", path, headers)

    async def post(self, path: str, **headers: str) -> Response:
        """POST an empty form."""
        form = "application/x-www-form-urlencoded"
        return await self._send("POST", path, {"content_type": form, **headers})

    async def _send(self, method: str, path: str, headers: Mapping[str, str]) -> Response:
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return await self._wire.send(
            Request(method=method, url=HERE + path, headers=Headers(named))
        )
