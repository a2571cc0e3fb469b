"""Decides which addresses may be called: the protection against server-side request forgery.

An address is judged as a number, after its name was resolved, never as it was written: `127.1`,
`0x7f000001` and a name that points to loopback are all the same number. An address that contains
another one is judged by the inner one.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

import msgspec

from headgate.base.errors import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

HTTPS_PORT = 443

#: The IPv4 networks that are not public, and what each is.
_DENIED_4 = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "a carrier's own (CGNAT)",
    "127.0.0.0/8": "loopback",
    # An Azure machine's host answers here, though the address looks public.
    "168.63.129.16/32": "a cloud's metadata",
    "169.254.0.0/16": "link-local, with the clouds' metadata",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "special",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved, with broadcast",
}

#: The public IPv6 network, and the parts of it that are not public.
_PUBLIC_6 = IPv6Network("2000::/3")
_DENIED_6 = {
    "2001::/32": "Teredo",
    "2001::/23": "special",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "3fff::/20": "documentation",
}

#: Addresses in these networks contain an IPv4 address in their last four bytes.
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")

#: The networks of this machine itself.
LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


def is_loopback(host: str) -> bool:
    """Whether a URL's host is this machine, by its usual name or by its address."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in LOOPBACK)


def _table(denied: dict[str, str]) -> list[tuple[Network, str]]:
    return [(ip_network(network), what) for network, what in denied.items()]


_TABLE_4, _TABLE_6 = _table(_DENIED_4), _table(_DENIED_6)


def denied_reason(address: Address) -> str | None:
    """Return why an address must not be called; None for a public one."""
    address = unwrap(address)
    if isinstance(address, IPv6Address) and address not in _PUBLIC_6:
        return "not on the public IPv6 network"
    table = _TABLE_4 if isinstance(address, IPv4Address) else _TABLE_6
    return next((what for network, what in table if address in network), None)


def unwrap(address: Address) -> Address:
    """Return the IPv4 address inside a mapped or translated IPv6 one; any other unchanged."""
    if isinstance(address, IPv6Address) and (address in _MAPPED or address in _NAT64):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


class AddressRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport may call: the public network by https, and the networks allowed besides."""

    #: Private networks that may be called, by plain http too: a sandbox on loopback, a provider
    #: inside one's own network.
    private: tuple[Network, ...] = ()
    #: The ports that may be called on the public network.
    ports: frozenset[int] = frozenset({HTTPS_PORT})

    def refusal(self, scheme: str, address: str, port: int) -> str | None:
        """Return why an address must not be called; None if it may."""
        return _refusal(self, scheme, address, port)


# Cached, because an address in a URL is judged for every request.
@lru_cache(maxsize=1024)
def _refusal(rules: AddressRules, scheme: str, address: str, port: int) -> str | None:
    try:
        number = unwrap(ip_address(address))
    except ValueError:
        return "it is not an IP address"
    if any(number in network for network in rules.private):
        return None
    if (what := denied_reason(number)) is not None:
        # Nobody is told to open the way to a cloud's metadata.
        own = number.is_loopback or what in ("private", "not on the public IPv6 network")
        way = f"; if it is your own, set HEADGATE_PRIVATE_NETWORKS={number}" if own else ""
        return f"its address is {what}{way}"
    if scheme != "https":
        return "only https goes over the public network"
    if port not in rules.ports:
        return f"port {port} is not one of the declared ports"
    return None


def parse_networks(text: str, *, field: str = "private_networks") -> tuple[Network, ...]:
    """Parse networks written as `127.0.0.0/8, ::1/128`; `field` is the setting that names them."""
    return tuple(_network(each, field) for each in _words(text))


def _words(text: str) -> Iterable[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _network(text: str, field: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidInput(field, f"{text!r} is not a network, such as 127.0.0.0/8") from None
