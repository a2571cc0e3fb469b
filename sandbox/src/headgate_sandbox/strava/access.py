"""This module checks what a token may do, and serves the OAuth endpoints with Strava's bodies."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.answers import Answered
from headgate_sandbox.kit.oauth import OAuth
from headgate_sandbox.kit.tokens import Grant, OAuthRefused, TokenRules
from headgate_sandbox.strava.activity import Activity
from headgate_sandbox.strava.answers import fault

CLIENT_ID = "4242"
CLIENT_SECRET = "sandbox-client-secret"

READ, READ_ALL, WRITE = "activity:read", "activity:read_all", "activity:write"
PROFILE = "profile:read_all"
SCOPES = ("read", "read_all", PROFILE, "profile:write", READ, READ_ALL, WRITE)

#: An access token lasts six hours. A refresh returns the same pair while more than one hour is
#: left; once a refresh gives a new pair, the old refresh token stops working.
RULES = TokenRules(access_s=21_600, keep_above_s=3_600)

#: The resource that an error names for each wrong field.
_RESOURCES = {"code": "RequestToken", "refresh_token": "RefreshToken", "scope": "Authorize"}


class StravaOAuth(OAuth):
    """The OAuth endpoints with Strava's bodies."""

    scope_separator = ","
    scopes_known = frozenset(SCOPES)
    #: Gives the JSON of the athlete that comes with the first pair of tokens.
    show_athlete: Callable[[int], JsonObject]

    def token_body(self, grant: Grant, *, first: bool) -> JsonObject:
        """The tokens; the athlete comes with the first pair only."""
        assert grant.expires_at is not None
        body: dict[str, object] = {
            "token_type": "Bearer",
            "expires_at": int(grant.expires_at.timestamp()),
            "expires_in": self.expires_in_s(grant),
            "refresh_token": grant.refresh_token,
            "access_token": grant.access_token,
        }
        if first:
            body["athlete"] = self.show_athlete(int(grant.user))
        return body

    def refused(self, refusal: OAuthRefused) -> Response:
        """The answer to a refused request; its status is always 400."""
        return fault(400, _RESOURCES.get(refusal.field, "Application"), refusal.field, "invalid")


def grant_of(request: Request) -> Grant:
    """The grant of the token that the request was admitted with."""
    grant: Grant = request.state.grant
    return grant


def reader(request: Request) -> Grant:
    """The request's grant, which must allow reading activities; answers with a 401 otherwise."""
    grant = grant_of(request)
    if READ not in grant.scopes and READ_ALL not in grant.scopes:
        raise Answered(fault(401, "AccessToken", f"{READ}_permission", "missing"))
    return grant


def writer(request: Request) -> Grant:
    """The request's grant, which must allow creating activities; answers with a 401 otherwise."""
    grant = grant_of(request)
    if WRITE not in grant.scopes:
        raise Answered(fault(401, "AccessToken", f"{WRITE}_permission", "missing"))
    return grant


def may_see(grant: Grant, activity: Activity) -> bool:
    """Whether the activity is the athlete's own; a private one also needs `activity:read_all`."""
    if activity.athlete_id != int(grant.user):
        return False
    return not activity.private or READ_ALL in grant.scopes
