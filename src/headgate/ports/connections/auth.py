"""Authorization at a provider, and the vault that encrypts the credentials."""

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
    """Encrypts and decrypts secrets."""

    @property
    def key_id(self) -> str:
        """The id of the key that encrypts new ciphertexts."""
        ...

    def seal(self, plain: Secret, binding: Binding) -> bytes:
        """Encrypt `plain` for the place that `binding` names."""
        ...

    def open(self, sealed: bytes, binding: Binding) -> Secret:
        """Decrypt `sealed`; CredentialsUnreadable if that fails."""
        ...


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a user's visit to the provider's consent page."""

    redirect_uri: str
    state: Secret
    #: The PKCE verifier; the page gets only its hash.
    verifier: Secret


class AuthContext(msgspec.Struct, frozen=True, kw_only=True):
    """What an `Auth` needs to talk to an authorization server."""

    transport: Transport
    clock: Clock
    rng: Random


class TokenPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """The headers and parameters that carry an access token in a request."""

    headers: Mapping[str, str] = {}
    params: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"TokenPlacement({', '.join([*self.headers, *self.params])})"


class Auth(Protocol):
    """The authorization of one provider. Its quirks are data of the implementation."""

    @property
    def refreshes(self) -> bool:
        """Whether a refresh token renews the access token."""
        ...

    @property
    def refresh_margin_s(self) -> float:
        """An access token that expires within so many seconds is renewed."""
        ...

    @property
    def ports(self) -> frozenset[int]:
        """The network ports that the authorization calls."""
        ...

    def merge(self, other: "Auth") -> "Auth | None":
        """One `Auth` with the scopes of both; None if they differ in more than scopes."""
        ...

    def place_token(self, access: Secret) -> TokenPlacement:
        """The headers and parameters that carry the access token in a request."""
        ...

    async def refresh(self, auth_context: AuthContext, refresh_token: Secret) -> Tokens:
        """Get new tokens; GrantRefused if, and only if, the provider refuses to issue any.

        Any other error says nothing about the credentials.
        """
        ...


@runtime_checkable
class CodeAuth(Auth, Protocol):
    """An `Auth` whose users consent on the provider's own page."""

    @property
    def redirect_uris(self) -> Sequence[str]:
        """The addresses to which the page may send users back, compared exactly."""
        ...

    def consent_url(self, consent: Consent) -> str:
        """The address of the consent page for the user."""
        ...

    async def exchange(
        self, auth_context: AuthContext, query: Mapping[str, str], consent: Consent
    ) -> Tokens:
        """Get tokens for the code in `query`, with which the page sent the user's browser back."""
        ...


@runtime_checkable
class RevocableAuth(Auth, Protocol):
    """An `Auth` whose provider may let us withdraw what a user has authorized."""

    @property
    def can_revoke(self) -> bool:
        """Whether the provider has an endpoint for it."""
        ...

    async def revoke(
        self, auth_context: AuthContext, access: Secret, refresh_token: Secret | None
    ) -> None:
        """Withdraw the authorization; it is no error if it was withdrawn before."""
        ...


def one_line(token: Secret) -> str:
    """The text of a token; InvalidInput, which does not quote it, if it is not one ASCII line.

    A line break could add a header to the request that carries the token.
    """
    text = token.reveal()
    if not (text.isascii() and text.isprintable()):
        raise InvalidInput("token", "must be one line of printable ASCII characters")
    return text
