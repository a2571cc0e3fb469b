"""Addresses are read strictly, and joined without surprises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import AddressRefused
from headgate.net.urls import Origin, join_url, origin_of, resolve_location


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://www.strava.com/api/v3", Origin("https", "www.strava.com", 443)),
        ("http://127.0.0.1:8080/x?y=1", Origin("http", "127.0.0.1", 8080)),
        ("https://API.Example:3001", Origin("https", "api.example", 3001)),
        ("https://[2606:4700::1111]/", Origin("https", "2606:4700::1111", 443)),
        ("http://sandbox", Origin("http", "sandbox", 80)),
        ("https://xn--bcher-kva.example/", Origin("https", "xn--bcher-kva.example", 443)),
        ("https://a_b.example./", Origin("https", "a_b.example.", 443)),
    ],
)
def test_an_address_says_who_is_called(url: str, origin: Origin) -> None:
    assert origin_of(url) == origin


#: Addresses that a browser or a resolver may understand.
DOUBTFUL = """
127.1/ 0x7f000001/ 0x7f.1/ 2130706433/ 0177.0.0.1/ 0/ 127.0.0.1./ 127.000.0.1/ ①②⑦.⓪.⓪.①/
bücher.example/ evil.example。com/ %31%32%37.0.0.1/ a%2eb/ user:pass@api.example/
api.example@evil.example/ :@api.example/ api..example/ -a.example/ /path api.example:0/
api.example:99999/ api.example:port/ [::1%25lo]/ [nonsense]/
""".split()


@pytest.mark.parametrize(
    "url",
    [
        *(f"https://{each}" for each in DOUBTFUL),
        "https://exa\u0301mple.com/",
        "https://api.example\\@evil.example/",
        "https://api.example\r\nHost: evil/",
        "https://api.example/a b",
        "https://api.example/\x00",
        "ftp://api.example/",
        "file:///etc/passwd",
        "gopher://api.example:70/",
        "//api.example/",
        "api.example/",
        "",
        "https://",
        "https://api.example/" + "a" * 9_000,
    ],
)
def test_an_address_that_is_not_beyond_doubt_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        origin_of(url)
    with pytest.raises(AddressRefused) as raised:
        origin_of("https://ada:s3cret@api.example/x?token=s3cret")
    assert "s3cret" not in str(raised.value)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"https://api.example/{text}"):
        try:
            origin = origin_of(url)
        except AddressRefused:
            continue
        assert origin.host.isascii()


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/athlete", "https://api.example/v3/athlete"),
        ("athlete", "https://api.example/v3/athlete"),
        ("//evil.example/x", "https://api.example/v3/evil.example/x"),
        ("/x?of=https://evil.example", "https://api.example/v3/x?of=https://evil.example"),
        ("/to/https://evil.example", "https://api.example/v3/to/https://evil.example"),
        ("https://other.example/x", "https://other.example/x"),
        ("HTTPS://other.example/x", "HTTPS://other.example/x"),
    ],
)
def test_a_path_lies_under_the_base_and_an_address_is_itself(path: str, url: str) -> None:
    assert join_url("https://api.example/v3/", path) == url


def test_parameters_are_encoded_as_providers_expect_them() -> None:
    url = join_url(
        "https://api.example",
        "/x?first=1#part",
        {"after": 7, "all": True, "not": None, "keys": ["a", "b&c"], "name": "é /"},
    )

    query = "first=1&after=7&all=true&keys=a&keys=b%26c&name=%C3%A9+%2F"
    assert url == f"https://api.example/x?{query}#part"


def test_a_location_is_read_from_where_it_was_said_and_told_with_its_port() -> None:
    assert resolve_location("https://a.example/v1/x?y=1", "/z") == "https://a.example/z"
    assert resolve_location("https://a.example/v1/x", "//b.example/z") == "https://b.example/z"
    assert resolve_location("https://a.example/v1/x", "https://b.example") == "https://b.example"
    assert str(origin_of("https://a.example:443/x")) == "https://a.example"
    assert str(origin_of("https://a.example:3001/x")) == "https://a.example:3001"
    assert str(origin_of("http://[::1]:80/")) == "http://[::1]"
