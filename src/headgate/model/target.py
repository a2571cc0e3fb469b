"""Topics and targets: what messages are about, and where they go."""

import re
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

import msgspec

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.base.signing import is_signing_secret

#: How many requests a target gets at once.
CONCURRENCY = 4
CONCURRENCY_MAX = 100
NAME_LENGTH_MAX = 50

_NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*", re.ASCII)
_PATH = re.compile(r"(/[!-~]*)?")
_URL = re.compile(r"[!-~]+")
_KEY = re.compile(r"[!-~]([ -~]*[!-~])?")
#: The characters of the name of a header (RFC 9110).
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PORTS = {"http": 80, "https": 443}
_THIS_MACHINE = "localhost"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A place that messages go to. Its URL and its key belong together and are never mixed."""

    #: Such as `local`, `staging` or `production`.
    name: str
    #: Where its API begins: `https://api.example.com`.
    url: str
    #: The API key that goes with every message; None for a target that checks signatures instead.
    key: Secret | None = None
    #: Whether somebody has to confirm by name that messages go there. Unless it is said, only a
    #: target called production is protected; a target that was made has True or False.
    protected: bool | None = None
    concurrency: int = CONCURRENCY
    #: The header that carries the key.
    key_header: str = "x-api-key"
    #: The secrets that sign every message as Standard Webhooks has it, the newest first; two while
    #: one replaces the other.
    signing: tuple[Secret, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a target that cannot work, naming the field."""
        self._check()
        check_name("target", self.name)
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise self._refusal("concurrency", f"must be between 1 and {CONCURRENCY_MAX}")
        if self.protected is None:
            msgspec.structs.force_setattr(self, "protected", is_protected(self.name))

    def _check(self) -> None:
        if not _is_base_url(self.url):
            raise self._refusal(
                "url", "write one such as https://api.example.com, without a user name or a query"
            )
        if self.key is None and not self.signing:
            raise self._refusal("key", "set one, or a secret that signs the messages")
        if self.key is not None and not _KEY.fullmatch(self.key.reveal()):
            raise self._refusal("key", "must be printable ASCII, not empty, without a line end")
        if not _HEADER.fullmatch(self.key_header):
            raise self._refusal("key_header", "write the name of a header, such as x-api-key")
        if not all(map(is_signing_secret, self.signing)):
            raise self._refusal(
                "signing",
                "each secret is whsec_ and 24 to 64 bytes in base64; make one with: "
                "headgate notify secret",
            )

    def _refusal(self, field: str, problem: str) -> InvalidInput:
        return InvalidInput(f"target {self.name}", f"{field}: {problem}")

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Everything of it that must not be seen."""
        return self.signing if self.key is None else (self.key, *self.signing)

    @property
    def place(self) -> tuple[str, int | None]:
        """The host and its port: targets with the same one are the same place.

        The port is None for http and https alike if it is the usual one, because one server tends
        to have both. All names and addresses of this machine itself are one host; of other hosts
        nothing is looked up, so two names of one machine are two places.
        """
        parts = urlsplit(self.url)
        port = None if parts.port in _PORTS.values() else parts.port
        return host_of((parts.hostname or "").rstrip(".")), port


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """What messages are about: it says how they are sent, and where to by default."""

    #: Such as `price-history`.
    name: str
    #: The path of the target's API that takes them; empty: the target's URL itself.
    path: str
    #: The names of the targets that a message goes to unless it names others. Empty: to none yet;
    #: it is kept, and a replay sends it to a target that is configured later. None: every message
    #: has to name its own, and one that names none is refused.
    targets: tuple[str, ...] | None = None
    #: Reads the body of an answer with a 2xx status: returns why the target can never accept the
    #: message, or None if it has accepted all of it.
    find_rejection: Callable[[bytes], str | None] | None = None
    #: Whether its messages go to its own targets alone, and these get nothing else.
    exclusive: bool = False

    def __post_init__(self) -> None:
        """Refuse a topic that cannot work, naming the field."""
        check_name("topic", self.name)
        if not _PATH.fullmatch(self.path):
            raise InvalidInput(f"topic {self.name}", "path: write one such as /v1/orders")


def _is_base_url(url: str) -> bool:
    """Whether the URL has a scheme, a host and perhaps a port and a path, and nothing else."""
    try:
        parts = urlsplit(url)
        has_valid_port = parts.port != 0
    except ValueError:
        return False
    extra = "@" in parts.netloc or parts.query or parts.fragment or "\\" in url
    known = parts.scheme in _PORTS and bool(parts.hostname)
    return bool(_URL.fullmatch(url) and known and has_valid_port and not extra)


def host_of(name: str) -> str:
    """The name or address of a host in one spelling, and `localhost` for this machine."""
    if name == _THIS_MACHINE or name.endswith(f".{_THIS_MACHINE}"):
        return _THIS_MACHINE
    try:
        address = ip_address(name)
    except ValueError:
        return name
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    # A connection to 0.0.0.0 or to :: ends at this machine too.
    return _THIS_MACHINE if address.is_loopback or address.is_unspecified else str(address)


def is_protected(name: str) -> bool:
    """Whether a target of that name is protected unless it says otherwise."""
    return name == "production"


def check_name(field: str, name: str) -> None:
    """Raise InvalidInput if `name` is not the name of a topic or of a target."""
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        raise InvalidInput(
            field,
            f"{name!r} must be lower-case words such as production, "
            f"of at most {NAME_LENGTH_MAX} characters",
        )
