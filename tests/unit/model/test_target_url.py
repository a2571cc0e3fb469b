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
    with pytest.raises(InvalidInput, match="its URL is that of production"):
        Targets(targets=[production, target(url)])


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
