"""The URL of a target: which are refused, and which of them are the same place."""

import pytest

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.flow.targets import Targets
from headgate.model.target import Target


def target(url: str, name: str = "local", *, protected: bool = False) -> Target:
    return Target(name=name, url=url, key=Secret("k"), protected=protected)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com:443",
        "https://API.example.com/v2",
        "http://api.example.com",
        "http://api.example.com:80/",
        "https://api.example.com.",
    ],
)
def test_no_spelling_of_a_protected_targets_url_passes_for_another_place(url: str) -> None:
    production = target("https://api.example.com", "production", protected=True)

    assert target(url).place == production.place
    with pytest.raises(InvalidInput, match="has the same host and port as production"):
        Targets(targets=[production, target(url)])


LOOPBACK = [
    "http://localhost:9203",
    "http://LOCALHOST.:9203/v1",
    "http://api.localhost:9203",
    "http://127.0.0.1:9203",
    "https://127.9.8.7:9203",
    "http://[::1]:9203",
    "http://[0:0:0:0:0:0:0:1]:9203",
    "http://[::ffff:127.0.0.1]:9203",
    "http://0.0.0.0:9203",
    "http://[::]:9203",
]


@pytest.mark.parametrize("url", LOOPBACK)
@pytest.mark.parametrize("protected_url", ["http://127.0.0.1:9203", "http://localhost:9203"])
def test_every_name_of_this_machine_is_one_place(url: str, protected_url: str) -> None:
    production = target(protected_url, "production", protected=True)

    with pytest.raises(InvalidInput, match="has the same host and port as production"):
        Targets(targets=[production, target(url)])


def test_an_address_is_one_place_in_every_spelling() -> None:
    assert target("http://[2001:DB8:0::1]").place == target("http://[2001:db8::1]").place
    assert target("http://[::ffff:192.0.2.1]").place == target("http://192.0.2.1").place


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://127.0.0.1:9203", "http://127.0.0.1:9204"),
        ("http://127.0.0.1:9203", "http://128.0.0.1:9203"),
        ("http://localhost:9203", "http://localhost.example:9203"),
        ("http://localhost:9203", "http://notlocalhost:9203"),
    ],
)
def test_what_only_looks_like_this_machine_is_another_place(one: str, other: str) -> None:
    assert target(one).place != target(other).place


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com:8443",
        "https://staging.example.com",
        "https://api.example.com.example.org",
    ],
)
def test_another_host_or_port_is_another_place(url: str) -> None:
    production = target("https://api.example.com", "production", protected=True)

    assert len(Targets(targets=[production, target(url)])) == 2


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "https://:8080",
        "https://host:0",
        "https://host:99999",
        "https://host:http",
        "https://[::1",
        "https://ada:hunter2@host",
        "https://host?key=hunter2",
        "https://host#part",
        "https://ho st",
        "https://host\\@other",
    ],
)
def test_a_url_that_cannot_be_a_targets_is_refused_and_not_told(url: str) -> None:
    with pytest.raises(InvalidInput, match="target local: url: write one such as https") as refused:
        target(url)

    assert "hunter2" not in str(refused.value)
