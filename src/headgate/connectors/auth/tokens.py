"""Where a token goes in a request, and `ApiToken` for tokens that users copy from a provider."""

import msgspec

from headgate.base.errors import AuthExpired
from headgate.base.secret import Secret
from headgate.model.connection import Tokens
from headgate.ports.connections.auth import Auth, AuthContext, TokenPlacement, one_line


class InHeader(msgspec.Struct, frozen=True):
    """Puts the token in a header: `Authorization: Bearer …`."""

    name: str = "Authorization"
    scheme: str = "Bearer"

    def place(self, access: Secret) -> TokenPlacement:
        """Return the header with the token."""
        return TokenPlacement(headers={self.name: f"{self.scheme} {one_line(access)}".strip()})


class InQuery(msgspec.Struct, frozen=True):
    """Puts the token in the URL, if the provider wants it so. Logs and errors omit it."""

    name: str = "oauth_token"

    def place(self, access: Secret) -> TokenPlacement:
        """Return the parameter with the token."""
        return TokenPlacement(params={self.name: one_line(access)})


Placement = InHeader | InQuery


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that the user copies from the provider's settings page."""

    placement: Placement = InHeader()

    @property
    def refreshes(self) -> bool:
        """False: the token is valid until the user revokes it."""
        return False

    @property
    def refresh_margin_s(self) -> float:
        """Zero: the token does not expire."""
        return 0.0

    @property
    def ports(self) -> frozenset[int]:
        """Empty: there is no token endpoint to call."""
        return frozenset()

    def merge(self, other: Auth) -> "ApiToken | None":
        """Return this token; None if the other differs, for it has no scopes to merge."""
        return self if self == other else None

    def place_token(self, access: Secret) -> TokenPlacement:
        """Return the token's place in a request."""
        return self.placement.place(access)

    async def refresh(self, auth_context: AuthContext, refresh_token: Secret) -> Tokens:
        """Raise AuthExpired: the token cannot be renewed."""
        raise AuthExpired("a token that was copied from the provider cannot be renewed")
