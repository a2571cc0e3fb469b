"""Finds the address of a client behind proxies, as far as proxies are believed.

Each proxy adds the address that it was called from to the end of `X-Forwarded-For`. What stands
before that is a client's own claim, so entries are counted from the end.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from headgate.net.addresses import Network

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_HEADER = b"x-forwarded-for"


class ClientAddresses:
    """A site that sees its clients' own addresses, and not those of its proxies."""

    def __init__(self, web: "ASGIApp", proxies: Sequence[Network], *, hops: int) -> None:
        """Serve `web`; requests from these networks have come through `hops` proxies."""
        self._web = web
        self._proxies = proxies
        self._hops = hops

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass the request on, with the client's address."""
        if scope["type"] == "http" and scope.get("client") is not None:
            host = scope["client"][0]
            client = self._client_behind(host, scope["headers"])
            if client is not None:
                scope = {**scope, "client": (str(client), 0)}
        await self._web(scope, receive, send)

    def _client_behind(
        self, host: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> IPv4Address | IPv6Address | None:
        """The client's address; None: whoever has connected is the client."""
        peer = _address(host)
        if peer is None or not any(peer in network for network in self._proxies):
            return None
        listed = b",".join(value for name, value in headers if name == _HEADER).split(b",")
        # Fewer entries than proxies: the request did not come the way that the settings describe.
        found = listed[-self._hops] if len(listed) >= self._hops else b""
        return _address(found.decode("latin-1").strip())


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
