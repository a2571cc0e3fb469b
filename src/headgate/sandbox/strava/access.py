"""Who is asking, what they may see, and the OAuth endpoints in Strava's words."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from headgate.base.encoding import JsonObject
from headgate.sandbox.kit.answers import Answered
from headgate.sandbox.kit.oauth import OAuth
from headgate.sandbox.kit.tokens import Grant, OAuthRefused, TokenRules
from headgate.sandbox.strava.activity import Activity
from headgate.sandbox.strava.answers import fault

CLIENT_ID = "4242"
CLIENT_SECRET = "sandbox-client-secret"

READ, READ_ALL, WRITE = "activity:read", "activity:read_all", "activity:write"
PROFILE = "profile:read_all"
SCOPES = ("read", "read_all", PROFILE, "profile:write", READ, READ_ALL, WRITE)

#: Six hours; a refresh gives the same pair again while more than one of them is left. Once it gives
#: a new pair, the old refresh token is dead.
RULES = TokenRules(access_s=21_600, keep_above_s=3_600)

#: Which resource an error names for the field that is wrong.
_RESOURCES = {"code": "RequestToken", "refresh_token": "RefreshToken", "scope": "Authorize"}


class StravaOAuth(OAuth):
    """The endpoints with Strava's bodies."""

    scope_separator = ","
    scopes_known = frozenset(SCOPES)
    #: The athlete that comes with the first pair of tokens.
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
        """Always a 400."""
        return fault(400, _RESOURCES.get(refusal.field, "Application"), refusal.field, "invalid")


def grant_of(request: Request) -> Grant:
    """The grant that the request was let in by."""
    grant: Grant = request.state.grant
    return grant


def reader(request: Request) -> Grant:
    """The grant, if it allows to read activities."""
    grant = grant_of(request)
    if READ not in grant.scopes and READ_ALL not in grant.scopes:
        raise Answered(fault(401, "AccessToken", f"{READ}_permission", "missing"))
    return grant


def writer(request: Request) -> Grant:
    """The grant, if it allows to create activities."""
    grant = grant_of(request)
    if WRITE not in grant.scopes:
        raise Answered(fault(401, "AccessToken", f"{WRITE}_permission", "missing"))
    return grant


def may_see(grant: Grant, activity: Activity) -> bool:
    """Whether it is the athlete's own, and not for their eyes only unless all may be read."""
    if activity.athlete_id != int(grant.user):
        return False
    return not activity.private or READ_ALL in grant.scopes
