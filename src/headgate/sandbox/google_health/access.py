"""Who is asking, what they may see, and the OAuth endpoints in Google's words."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from headgate.base.encoding import JsonObject
from headgate.sandbox.google_health.answers import forbidden, insufficient_scope
from headgate.sandbox.google_health.data_types import ACTIVITY, LOCATION, METRICS, PROFILE, SLEEP
from headgate.sandbox.kit.answers import json_answer
from headgate.sandbox.kit.oauth import OAuth
from headgate.sandbox.kit.tokens import Grant, OAuthRefused, TokenRules

CLIENT_ID = "424242424242-sandbox.apps.googleusercontent.com"
CLIENT_SECRET = "GOCSPX-sandbox-client-secret"

SCOPES = (ACTIVITY, METRICS, SLEEP, LOCATION, PROFILE)

#: An hour; a refresh gives a new access token, and the refresh token stays what it is.
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
    """The endpoints with Google's bodies."""

    scopes_known = frozenset({*SCOPES, "openid", "email", "profile"})

    def wants_refresh(self, asked: Mapping[str, str]) -> bool:
        """Google gives a refresh token only to those who ask for access while offline."""
        return asked.get("access_type") == "offline"

    def token_body(self, grant: Grant, *, first: bool) -> JsonObject:
        """The tokens; the refresh token comes once, with the first."""
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
        """A 400, or a 401 for a client that is not known."""
        description = _DESCRIPTIONS.get(refusal.field, f"Invalid parameter value: {refusal.field}")
        body = {"error": refusal.error, "error_description": description}
        return json_answer(body, 401 if refusal.error == "invalid_client" else 400)


def reader(request: Request, *scopes: str) -> str:
    """The user whose data it is, if the path is theirs and all these scopes were granted."""
    grant: Grant = request.state.grant
    if request.path_params["user"] not in ("me", grant.user):
        raise forbidden()
    if not set(scopes) <= set(grant.scopes):
        raise insufficient_scope()
    return grant.user
