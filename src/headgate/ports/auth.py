"""How a provider lets us in, and what encrypts the credentials that it gives out."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Protocol, runtime_checkable

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.model.connection import Binding, Tokens
from headgate.ports.transport import Transport


class Vault(Protocol):
    """Encrypts and decrypts."""

    @property
    def key_id(self) -> str:
        """The key that new ciphertexts are made with."""
        ...

    def seal(self, plain: Secret, binding: Binding) -> bytes:
        """`plain`, encrypted for that place."""
        ...

    def open(self, sealed: bytes, binding: Binding) -> Secret:
        """The secret; CredentialsUnreadable where it cannot be had."""
        ...


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """What is told to the provider's page when a user is sent there."""

    redirect_uri: str
    state: Secret
    #: PKCE's verifier; the page gets only its hash.
    verifier: Secret


class AuthContext(msgspec.Struct, frozen=True, kw_only=True):
    """What talking to an authorization server takes."""

    transport: Transport
    clock: Clock
    rng: Random


class TokenPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Where an access token goes in a request."""

    headers: Mapping[str, str] = {}
    params: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Placed({', '.join([*self.headers, *self.params])})"


class Auth(Protocol):
    """How one provider lets us in. Its quirks are data of the implementation."""

    @property
    def refreshes(self) -> bool:
        """Whether its tokens are renewed by a refresh token."""
        ...

    @property
    def refresh_margin_s(self) -> float:
        """Renew an access token that ends within so many seconds."""
        ...

    @property
    def ports(self) -> frozenset[int]:
        """Every port that it calls."""
        ...

    def merge(self, other: "Auth") -> "Auth | None":
        """Both as one, with the scopes of both; None where they differ in more than scopes."""
        ...

    def place_token(self, access: Secret) -> TokenPlacement:
        """The access token as a request carries it."""
        ...

    async def refresh(self, auth_context: AuthContext, refresh_token: Secret) -> Tokens:
        """New tokens. GrantRefused where the provider says that there will be none, and only then.

        Anything else it raises says nothing about the credentials.
        """
        ...


@runtime_checkable
class CodeAuth(Auth, Protocol):
    """An `Auth` whose users consent on the provider's own page."""

    @property
    def redirect_uris(self) -> Sequence[str]:
        """Where its page may send users back to: these very texts."""
        ...

    def consent_url(self, consent: Consent) -> str:
        """The page to send the user to."""
        ...

    async def exchange(
        self, auth_context: AuthContext, query: Mapping[str, str], consent: Consent
    ) -> Tokens:
        """Tokens for what the page answered, which is what the user's browser came back with."""
        ...


def one_line(token: Secret) -> str:
    """The text of a token, if it can stand on one line: else it would be more than a token.

    What is wrong is told without the text.
    """
    text = token.reveal()
    if not (text.isascii() and text.isprintable()):
        raise InvalidInput("token", "must be one line of printable ASCII characters")
    return text
