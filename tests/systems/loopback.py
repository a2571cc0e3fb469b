"""Providers that are served on this machine: the way to them, and a browser that agrees there."""

from urllib.parse import parse_qsl, urlsplit

import aiohttp

from headgate import App
from headgate.net.addresses import AddressRules, parse_networks
from headgate.net.aiohttp_transport import AiohttpTransport
from headgate.types import Connection


def loopback_transport(*urls: str) -> AiohttpTransport:
    """A transport that leads to those addresses."""
    ports = frozenset(port for each in urls if (port := urlsplit(each).port))
    return AiohttpTransport(AddressRules(private=parse_networks("127.0.0.0/8"), ports=ports))


async def connect_by_browser(app: App, source: str, back: str) -> Connection:
    """As ada's browser does: out to the provider's page, which agrees at once, and back."""
    here = {"user_id": "ada", "session": "browser", "redirect_uri": back}
    page = await app.connections.start(source, **here)
    async with aiohttp.ClientSession() as browser:
        async with browser.get(page, allow_redirects=False) as answer:
            query = dict(parse_qsl(urlsplit(answer.headers["Location"]).query))
    return await app.connections.finish(query=query, **here)
