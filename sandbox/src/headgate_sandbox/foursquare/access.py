"""This module finds a request's token, and serves the OAuth endpoints with Foursquare's bodies.

Tokens never expire, so there is no refresh.
"""

from starlette.requests import Request
from starlette.responses import Response

from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.oauth import OAuth, bearer
from headgate_sandbox.kit.tokens import Grant, OAuthRefused, TokenRules

CLIENT_ID = "SANDBOXFOURSQUARECLIENT"
CLIENT_SECRET = "SANDBOXFOURSQUARESECRET"

RULES = TokenRules(access_s=None, refreshable=False)


class FoursquareOAuth(OAuth):
    """The OAuth endpoints with Foursquare's bodies."""

    def token_body(self, grant: Grant, *, first: bool) -> JsonObject:
        """The body with the access token, and nothing else."""
        return {"access_token": grant.access_token}

    def refused(self, refusal: OAuthRefused) -> Response:
        """The answer to a refused request: just the error, without the envelope."""
        status = 401 if refusal.error == "invalid_client" else 400
        return json_answer({"error": refusal.error}, status)


def token_of(request: Request) -> str:
    """The token in the query, or else in the header."""
    return request.query_params.get("oauth_token") or bearer(request)
