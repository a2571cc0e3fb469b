"""Topics and targets: what is refused, by the name of the field, and what is the same place."""

from random import Random

import msgspec
import pytest

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.base.signing import new_signing_secret
from headgate.model.target import (
    CONCURRENCY_MAX,
    NAME_LENGTH_MAX,
    Target,
    Topic,
    check_name,
    is_protected,
)

SIGNING = new_signing_secret(Random(1))


def target(**fields: object) -> Target:
    """A target, but for `fields`."""
    given = {"name": "local", "url": "https://api.example.com", "key": Secret("k3y"), **fields}
    return Target(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["a", "local", "eu-west.2", "price_history", "x" * NAME_LENGTH_MAX]
)
def test_a_name_is_of_lower_case_words(name: str) -> None:
    check_name("target", name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "Local", "1st", "a b", "a--b", "-a", "a-", "ä", "a\n"),
        *("../a", "x" * (NAME_LENGTH_MAX + 1)),
    ],
)
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^target: .* must be lower-case words"):
        target(name=name)
    with pytest.raises(InvalidInput, match=r"^topic: .* must be lower-case words"):
        Topic(name=name, path="/v1/orders")


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com",
        "https://api.example.com/",
        "http://127.0.0.1:8001/local",
        "http://[::1]:8001",
    ],
)
def test_an_address_has_a_scheme_a_host_and_perhaps_a_port_and_a_path(url: str) -> None:
    assert target(url=url).url == url


@pytest.mark.parametrize(
    "url",
    [
        *("", "api.example.com", "ftp://api.example.com", "https://", "https://:443"),
        *("https://api.example.com?key=s3cret", "https://api.example.com#s3cret"),
        *("https://user:s3cret@api.example.com", "https://[::1"),
        *("https://api.example.com:99999", "https://api.example.com:0"),
        *("https://api.example.com:http", "https://api.example.com\\@other"),
        *("https://api.example.com/a b", "https://api.exämple.com"),
    ],
)
def test_any_other_address_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^target local: url: write one such as") as refused:
        target(url=url)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("key", ["", " ", " k3y", "k3y ", "line\n", "schlüssel", "\x00"])
def test_a_key_that_cannot_go_into_a_header_is_refused_without_being_quoted(key: str) -> None:
    with pytest.raises(InvalidInput, match=r"^target local: key: must be printable") as refused:
        target(key=Secret(key))
    assert len(key) < 2 or key not in str(refused.value)


@pytest.mark.parametrize("header", ["", "x api key", "x-api-key:", "x\r\nhost", "schlüssel"])
def test_what_is_no_name_of_a_header_is_refused(header: str) -> None:
    with pytest.raises(InvalidInput, match=r"^target local: key_header: write the name"):
        target(key_header=header)


@pytest.mark.parametrize("concurrency", [0, -1, CONCURRENCY_MAX + 1])
def test_too_few_or_too_many_requests_at_once_are_refused(concurrency: int) -> None:
    with pytest.raises(InvalidInput, match=r"^target local: concurrency: must be between 1 and"):
        target(concurrency=concurrency)
    assert target(concurrency=CONCURRENCY_MAX).concurrency == CONCURRENCY_MAX


def test_a_key_may_follow_the_name_of_a_scheme() -> None:
    made = target(key=Secret("Bearer k3y"), key_header="authorization")
    assert made.key_header == "authorization"
    # And is never shown.
    assert "k3y" not in repr(made)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com",
        "https://API.example.com/v1",
        "https://api.example.com:443",
        "https://api.example.com.",
        "http://api.example.com",
        "http://api.example.com:80/",
    ],
)
def test_a_place_is_the_same_however_its_address_is_written(url: str) -> None:
    assert target(url=url).place == ("api.example.com", None)


@pytest.mark.parametrize(
    "url",
    [
        "https://api2.example.com",
        "https://api.example.com.example.org",
        "https://api.example.com:8443",
        "http://api.example.com:81",
    ],
)
def test_another_host_or_port_is_another_place(url: str) -> None:
    assert target(url=url).place != target().place


@pytest.mark.parametrize(
    "url",
    [
        *("http://LOCALHOST.:9203/v1", "http://api.localhost:9203", "http://127.0.0.1:9203"),
        *("https://127.9.8.7:9203", "http://[::1]:9203", "http://[0:0:0:0:0:0:0:1]:9203"),
        *("http://[::ffff:127.0.0.1]:9203", "http://0.0.0.0:9203", "http://[::]:9203"),
    ],
)
def test_every_name_of_this_machine_is_one_place(url: str) -> None:
    assert target(url=url).place == target(url="http://localhost:9203").place


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
    assert target(url=one).place != target(url=other).place


def test_an_address_is_one_place_in_every_spelling() -> None:
    for one, other in (("[2001:DB8:0::1]", "[2001:db8::1]"), ("[::ffff:192.0.2.1]", "192.0.2.1")):
        assert target(url=f"http://{one}").place == target(url=f"http://{other}").place


def test_only_production_is_protected_by_its_name() -> None:
    assert is_protected("production")
    assert not is_protected("staging")
    assert target().protected is False


def test_a_target_called_production_is_protected_unless_it_says_otherwise() -> None:
    production = target(name="production")

    assert production.protected is True
    assert msgspec.structs.replace(production, url="https://elsewhere.example").protected is True
    assert target(name="production", protected=False).protected is False
    assert target(name="staging", protected=True).protected is True


@pytest.mark.parametrize("path", ["", "/", "/v1/orders"])
def test_a_topic_has_a_path(path: str) -> None:
    assert Topic(name="orders", path=path).path == path


@pytest.mark.parametrize("path", ["v1/orders", "https://elsewhere.example/", "/a b", "/ä"])
def test_any_other_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match=r"^topic orders: path: write one such as /v1/orders"):
        Topic(name="orders", path=path)


def test_a_target_has_a_key_or_secrets_that_sign() -> None:
    signed = target(key=None, signing=(SIGNING,))
    assert signed.secrets == (SIGNING,)
    assert target(signing=(SIGNING,)).secrets == (Secret("k3y"), SIGNING)
    assert SIGNING.reveal() not in repr(signed)
    with pytest.raises(InvalidInput, match=r"^target local: key: set one, or a secret that signs"):
        target(key=None)


def test_a_secret_that_cannot_sign_is_refused_and_not_repeated() -> None:
    with pytest.raises(
        InvalidInput, match=r"^target local: signing: each secret is whsec_"
    ) as told:
        target(signing=(SIGNING, Secret("whsec_short")))
    assert "short" not in str(told.value)
