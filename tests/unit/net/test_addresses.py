"""The table of addresses: every form of a forbidden one is refused, and public ones are not."""

import socket
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import InvalidInput
from headgate.net.addresses import AddressRules, denied_reason, parse_networks

FORBIDDEN = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1
127.255.255.254 168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1
172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.51.100.1
203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1
::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1
64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1 2001:0:53aa:64c:0:7c5f:7f00:1 2001:10::1
2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1
fe80::1%eth0 fec0::1 ff02::1
""".split()

PUBLIC = """
1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 172.15.255.255 172.32.0.1
223.255.255.255 2001:4860:4860::8888 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::8.8.8.8
""".split()

#: As FAULTS.md lists them: the resolver understands every one.
SPELLINGS = ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0", "①②⑦.⓪.⓪.①"]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_a_forbidden_address_is_refused_with_what_it_is(address: str) -> None:
    assert denied_reason(ip_address(address)) is not None
    refusal = AddressRules().refusal("https", address, 443)
    assert refusal is not None and refusal.startswith("its address is")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_called(address: str) -> None:
    assert AddressRules().refusal("https", address, 443) is None
    assert AddressRules().refusal("https", "localhost", 443) == "it is not an IP address"


@pytest.mark.parametrize("text", ["localhost", "127.0.0.1/8", "300.0.0.0/8", "127.0.0.0/33"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="private_networks"):
        parse_networks(f"10.0.0.0/8, {text}")
    assert parse_networks(" , ") == ()


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.security(7)
def test_whatever_a_resolver_makes_of_a_spelling_is_refused(spelling: str) -> None:
    # None of these needs a name server: the library itself reads numbers in every spelling.
    found = socket.getaddrinfo(spelling, 443, type=socket.SOCK_STREAM)

    addresses = {str(sockaddr[0]) for *_, sockaddr in found}
    assert addresses
    assert all(AddressRules().refusal("https", each, 443) for each in addresses)


@given(st.ip_addresses(v=4))
def test_an_address_in_another_coat_is_judged_the_same(address: object) -> None:
    plain = denied_reason(ip_address(str(address)))

    assert denied_reason(ip_address(f"::ffff:{address}")) == plain
    assert denied_reason(ip_address(f"64:ff9b::{address}")) == plain


@given(st.ip_addresses())
def test_nothing_that_python_calls_private_is_public_to_us(address: object) -> None:
    # Python's own table is another opinion: ours is never the looser one.
    judged = ip_address(str(address))
    if not judged.is_global or judged.is_multicast:
        coat = judged in ip_network("64:ff9b::/96") if judged.version == 6 else False
        assert coat or denied_reason(judged) is not None


def test_the_public_network_takes_https_on_the_allowed_ports_alone() -> None:
    rules = AddressRules(ports=frozenset({443, 3001}))

    assert rules.refusal("https", "8.8.8.8", 3001) is None
    assert "port 22" in str(rules.refusal("https", "8.8.8.8", 22))
    assert "only https" in str(rules.refusal("http", "8.8.8.8", 80))
    assert "only https" in str(rules.refusal("http", "8.8.8.8", 443))


def test_a_private_network_is_opened_by_itself_alone() -> None:
    rules = AddressRules(private=parse_networks("127.0.0.0/8, fd12::/16"))

    assert rules.refusal("http", "127.0.0.1", 8080) is None
    assert rules.refusal("http", "::ffff:127.0.0.1", 8080) is None
    assert rules.refusal("https", "fd12::5", 8443) is None
    for other in ("10.0.0.1", "169.254.169.254", "::1", "fd13::5"):
        assert rules.refusal("http", other, 8080) is not None


@pytest.mark.parametrize(
    ("address", "helped"),
    [("127.0.0.1", True), ("10.1.2.3", True), ("::1", True), ("169.254.169.254", False)],
)
def test_a_network_of_ones_own_is_refused_with_the_setting_that_allows_it(
    address: str, helped: bool
) -> None:
    refusal = AddressRules().refusal("https", address, 443)

    assert refusal is not None
    assert (f"HEADGATE_PRIVATE_NETWORKS={address}" in refusal) is helped
    # What it names can be set.
    assert (
        not helped
        or AddressRules(private=parse_networks(address)).refusal("http", address, 1) is None
    )
