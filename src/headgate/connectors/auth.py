"""Where a token goes in a request, and tokens that a user hands over and nobody renews."""

import msgspec

from headgate.base.errors import AuthExpired
from headgate.base.secret import Secret
from headgate.model.connection import Tokens
from headgate.ports.auth import Auth, AuthContext, TokenPlacement, one_line


class InHeader(msgspec.Struct, frozen=True):
    """In a header: `Authorization: Bearer …`."""

    name: str = "Authorization"
    scheme: str = "Bearer"

    def place(self, access: Secret) -> TokenPlacement:
        """The header with the token."""
        return TokenPlacement(headers={self.name: f"{self.scheme} {one_line(access)}".strip()})


class InQuery(msgspec.Struct, frozen=True):
    """In the address, for providers that know no other way. It is kept out of logs and errors."""

    name: str = "oauth_token"

    def place(self, access: Secret) -> TokenPlacement:
        """The parameter with the token."""
        return TokenPlacement(params={self.name: one_line(access)})


Placement = InHeader | InQuery


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that the user copies from the provider's settings page."""

    placement: Placement = InHeader()

    @property
    def refreshes(self) -> bool:
        """It lives until the user ends it."""
        return False

    @property
    def refresh_margin_s(self) -> float:
        """It has no end to be ahead of."""
        return 0.0

    @property
    def ports(self) -> frozenset[int]:
        """It calls nobody."""
        return frozenset()

    def merge(self, other: Auth) -> "ApiToken | None":
        """It has no scopes: one token serves all who declare the same."""
        return self if self == other else None

    def place_token(self, access: Secret) -> TokenPlacement:
        """The token as a request carries it."""
        return self.placement.place(access)

    async def refresh(self, auth_context: AuthContext, refresh_token: Secret) -> Tokens:
        """There is nothing to renew it with."""
        raise AuthExpired("a token that was handed over is not renewed")
