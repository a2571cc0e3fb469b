"""Mail servers: what is refused, by the name of the field."""

from random import Random

import pytest

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.base.signing import new_signing_secret
from headgate.model.mail_server import MAIL_PORTS, MailServer, TlsMode, mail_url

PASSWORD = Secret("hunter2")


def server(**fields: object) -> MailServer:
    """A mail server, but for `fields`."""
    given = {
        "name": "notify.email",
        "url": "smtp://mail.example.com:2587",
        "sender": "Sync <sync@example.com>",
        **fields,
    }
    return MailServer(**given)  # type: ignore[arg-type]


def test_a_server_has_a_host_a_port_and_a_sender() -> None:
    made = server(user="sync", key=PASSWORD)
    assert (made.host, made.port, made.sender_address) == (
        "mail.example.com",
        2587,
        "sync@example.com",
    )
    assert made.secrets == (PASSWORD,)
    assert PASSWORD.reveal() not in repr(made)
    assert server(sender="sync@example.com").sender_address == "sync@example.com"
    assert server().secrets == ()


@pytest.mark.parametrize("tls", TlsMode)
def test_without_a_port_it_is_the_usual_one(tls: TlsMode) -> None:
    assert server(url="smtp://mail.example.com", tls=tls).port == MAIL_PORTS[tls]


def test_an_address_of_six_bytes_is_bracketed() -> None:
    assert mail_url("::1", 25) == "smtp://[::1]:25"
    assert server(url=mail_url("::1", 25)).host == "::1"
    assert mail_url("mail.example.com", 25) == "smtp://mail.example.com:25"


@pytest.mark.parametrize(
    "url",
    [
        *("", "mail.example.com", "https://mail.example.com", "smtp://"),
        *("smtp://user:password@mail.example.com", "smtp://mail.example.com/inbox"),
        *("smtp://mail.example.com?tls=no", "smtp://mail.example.com:0"),
        *("smtp://mail.example.com:port", "smtp://mail example.com"),
        *("smtp://mail.example.com\n", "smtp://mäil.example.com", "smtp://[::1"),
    ],
)
def test_any_other_url_is_refused(url: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"^target notify\.email: url: write one such as smtp://"
    ):
        server(url=url)


@pytest.mark.parametrize(
    "sender",
    ["", "sync", "Acme, Inc <sync@example.com>", "sync@example.com\nBcc: all@example.com", "<>"],
)
def test_a_sender_is_one_address(sender: str) -> None:
    with pytest.raises(InvalidInput, match=r"^target notify\.email: sender: write an address"):
        server(sender=sender)


def test_a_recipient_is_one_address() -> None:
    assert server(recipient="ops@example.com").recipient == "ops@example.com"
    with pytest.raises(InvalidInput, match=r"^target notify\.email: recipient: write an address"):
        server(recipient="ops@example.com, all@example.com")


@pytest.mark.parametrize("fields", [{"user": "sync"}, {"key": PASSWORD}])
def test_half_of_a_user_and_a_password_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=r"^target notify\.email: user: .* belong together"):
        server(**fields)


@pytest.mark.parametrize("user", ["", "sync\r\nRSET"])
def test_a_user_is_printable(user: str) -> None:
    with pytest.raises(InvalidInput, match=r"^target notify\.email: user: must be printable"):
        server(user=user, key=PASSWORD)


def test_a_password_is_not_sent_in_the_clear_but_to_this_machine() -> None:
    given = {"user": "sync", "key": PASSWORD, "tls": TlsMode.NONE}
    with pytest.raises(InvalidInput, match=r"^target notify\.email: tls: a password is not sent"):
        server(**given)
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert server(url=f"smtp://{host}", **given).tls is TlsMode.NONE


def test_secrets_that_sign_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^target notify\.email: signing: e-mails are not"):
        server(signing=(new_signing_secret(Random(1)),))
