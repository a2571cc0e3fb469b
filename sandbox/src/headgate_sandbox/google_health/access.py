"""This module checks what a token may do, and serves the OAuth endpoints with Google's bodies."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from headgate.base.encoding import JsonObject
from headgate_sandbox.google_health.answers import forbidden, insufficient_scope
from headgate_sandbox.google_health.data_types import ACTIVITY, LOCATION, METRICS
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.oauth import OAuth
from headgate_sandbox.kit.tokens import Grant, OAuthRefused, TokenRules

CLIENT_ID = "424242424242-sandbox.apps.googleusercontent.com"
CLIENT_SECRET = "GOCSPX-sandbox-client-secret"

SCOPES = (ACTIVITY, METRICS, LOCATION)

#: An access token lasts an hour. A refresh gives a new one and keeps the refresh token.
RULES = TokenRules(access_s=3_600, rotates=False)

_DESCRIPTIONS = {
    "code": "Malformed auth code.",
    "code_verifier": "Invalid code verifier.",
    "refresh_token": "Token has been expired or revoked.",
    "client_id": "The OAuth client was not found.",
    "client_secret": "Unauthorized",
    "grant_type": "Invalid grant_type",
}


class GoogleOAuth(OAuth):
    """The OAuth endpoints with Google's bodies."""

    scopes_known = frozenset({*SCOPES, "openid", "email", "profile"})

    def wants_refresh(self, asked: Mapping[str, str]) -> bool:
        """Whether the client asked for offline access; Google gives a refresh token only then."""
        return asked.get("access_type") == "offline"

    def token_body(self, grant: Grant, *, first: bool) -> JsonObject:
        """The body with the tokens; only the first one has the refresh token."""
        body: dict[str, object] = {
            "access_token": grant.access_token,
            "expires_in": self.expires_in_s(grant),
            "scope": " ".join(grant.scopes),
            "token_type": "Bearer",
        }
        if first and grant.refresh_token is not None:
            body["refresh_token"] = grant.refresh_token
        return body

    def refused(self, refusal: OAuthRefused) -> Response:
        """The answer to a refused request: a 401 for a wrong client, otherwise a 400."""
        description = _DESCRIPTIONS.get(refusal.field, f"Invalid parameter value: {refusal.field}")
        body = {"error": refusal.error, "error_description": description}
        return json_answer(body, 401 if refusal.error == "invalid_client" else 400)


def reader(request: Request, *scopes: str) -> str:
    """The token's user; answers with a 403 if the path is another user's or a scope is missing."""
    grant: Grant = request.state.grant
    if request.path_params["user"] not in ("me", grant.user):
        raise forbidden()
    if not set(scopes) <= set(grant.scopes):
        raise insufficient_scope()
    return grant.user
