"""Whose address a site sees, behind proxies that are believed and behind others."""

import pytest
from starlette.types import Receive, Scope, Send

from headgate.net.addresses import parse_networks
from headgate.toolkit.serving.proxies import ClientAddresses

PROXIES = "10.0.0.0/24, ::1/128"


async def seen(
    peer: str | None, *forwarded: str, proxies: str = PROXIES, hops: int = 1
) -> str | None:
    """The address that the site sees."""
    found: list[str | None] = []

    async def site(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(None if scope["client"] is None else scope["client"][0])

    headers = [(b"host", b"here"), *((b"x-forwarded-for", each.encode()) for each in forwarded)]
    client = None if peer is None else (peer, 4711)
    scope = {"type": "http", "client": client, "headers": headers}
    web = ClientAddresses(site, parse_networks(proxies), hops=hops)
    await web(scope, None, None)  # type: ignore[arg-type]  # nothing is read or sent
    [address] = found
    return address


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "10.0.1.7", "203.0.113.9"])
@pytest.mark.security(28)
async def test_nobody_is_believed_who_is_not_named(peer: str) -> None:
    assert await seen(peer, "198.51.100.1", proxies="") == peer
    assert await seen(peer, "198.51.100.1", proxies="10.0.0.0/24") == peer


@pytest.mark.parametrize(
    ("forwarded", "hops", "client"),
    [
        (["198.51.100.1"], 1, "198.51.100.1"),
        # What a client claims of itself stands before what the proxy says.
        (["192.0.2.66, 198.51.100.1"], 1, "198.51.100.1"),
        (["192.0.2.66", "198.51.100.1"], 1, "198.51.100.1"),
        (["192.0.2.66, 198.51.100.1, 10.0.0.9"], 2, "198.51.100.1"),
        (["2001:db8::7"], 1, "2001:db8::7"),
        (["::ffff:198.51.100.1"], 1, "198.51.100.1"),
        # It did not come the way that was named, or cannot be read: the proxy is the client.
        (["198.51.100.1"], 2, "10.0.0.2"),
        ([], 1, "10.0.0.2"),
        (["unknown"], 1, "10.0.0.2"),
        (["198.51.100.1,"], 1, "10.0.0.2"),
    ],
)
@pytest.mark.security(28)
async def test_a_proxy_that_is_named_is_believed_for_as_many_hops(
    forwarded: list[str], hops: int, client: str
) -> None:
    assert await seen("10.0.0.2", *forwarded, hops=hops) == client


async def test_a_proxy_is_known_by_either_form_of_its_address() -> None:
    assert await seen("::ffff:10.0.0.2", "198.51.100.1") == "198.51.100.1"


async def test_a_client_without_an_address_is_left_alone() -> None:
    assert await seen(None, "198.51.100.1") is None
