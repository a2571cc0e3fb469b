"""Mail servers: targets whose messages are e-mails to people."""

from email.utils import parseaddr
from enum import StrEnum
from urllib.parse import urlsplit

from headgate.model.target import Target, host_of
from headgate.model.user import email_problem


class TlsMode(StrEnum):
    """How the connection to a mail server is encrypted."""

    #: It begins in the clear, and nothing is said before it is encrypted.
    STARTTLS = "starttls"
    #: From the first byte.
    TLS = "tls"
    #: Not at all.
    NONE = "none"


#: The usual port of each.
MAIL_PORTS = {TlsMode.STARTTLS: 587, TlsMode.TLS: 465, TlsMode.NONE: 25}
_THIS_MACHINE = "localhost"


class MailServer(Target, frozen=True, kw_only=True):
    """A server that takes e-mails; its URL is `smtp://host:port`, and its key is the password."""

    user: str | None = None
    tls: TlsMode = TlsMode.STARTTLS
    #: Who sends the e-mails: an address, or `Name <address>`.
    sender: str
    #: Who gets all of them; None: the user that each message belongs to.
    recipient: str | None = None

    @property
    def host(self) -> str:
        """The name or the address of the server."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port."""
        return urlsplit(self.url).port or MAIL_PORTS[self.tls]

    @property
    def sender_address(self) -> str:
        """The address that the e-mails come from."""
        return parseaddr(self.sender)[1]

    def _check(self) -> None:
        if self.signing:
            raise self._refusal("signing", "e-mails are not signed; leave it out")
        if not self._has_plain_url():
            raise self._refusal("url", "write one such as smtp://mail.example.com:587")
        # Nothing that could end a line gets into a header.
        if not self.sender.isprintable() or email_problem(self.sender_address) is not None:
            raise self._refusal("sender", "write an address, such as sync@example.com")
        if self.recipient is not None and email_problem(self.recipient) is not None:
            raise self._refusal("recipient", "write an address, such as ops@example.com")
        if (self.user is None) != (self.key is None):
            raise self._refusal("user", "a user and a password belong together")
        if self.user is not None and not (self.user and self.user.isprintable()):
            raise self._refusal("user", "must be printable, and not empty")
        if self.key is not None and self.tls is TlsMode.NONE and not self._is_here():
            raise self._refusal(
                "tls", "a password is not sent in the clear: use starttls or tls, or no password"
            )

    def _has_plain_url(self) -> bool:
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError:
            return False
        extra = "@" in parts.netloc or parts.path or parts.query or parts.fragment
        plain = self.url.isascii() and self.url.isprintable() and " " not in self.url
        return bool(plain and parts.scheme == "smtp" and parts.hostname and port != 0 and not extra)

    def _is_here(self) -> bool:
        return host_of(self.host) == _THIS_MACHINE


def mail_url(host: str, port: int) -> str:
    """The URL of a mail server."""
    return f"smtp://[{host}]:{port}" if ":" in host else f"smtp://{host}:{port}"
