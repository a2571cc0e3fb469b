"""The description of Fitbit's API: addresses, authentication, limits and errors.

Fitbit's own API was turned off in November 2026; its data is read from the Google Health API v4,
and its users sign in at Google.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from headgate.base.errors import ScopeMissing
from headgate.base.secret import Secret
from headgate.connectors.auth.oauth import OAuth2, Rotation
from headgate.connectors.http.answers import Classify, Throttled, Verdict
from headgate.model.budget import Budget, Limit, Scope
from headgate.ports.transport import Response

#: The provider, in settings, connections and budgets.
NAME = "fitbit"
TITLE = "Fitbit"
#: The API, the sign-in page and the token endpoint are on three hosts.
API_URL = "https://health.googleapis.com"
AUTHORIZE_URL = "https://accounts.google.com/o/oauth2/v2/auth"
TOKEN_URL = "https://oauth2.googleapis.com/token"
REVOKE_URL = "https://oauth2.googleapis.com/revoke"

_HEALTH = "https://www.googleapis.com/auth/googlehealth"
#: `location` is for TCX files, which contain positions. `openid` identifies the account, so that
#: two people's histories are not mixed when someone connects again.
SCOPES = (
    f"{_HEALTH}.activity_and_fitness.readonly",
    f"{_HEALTH}.health_metrics_and_measurements.readonly",
    f"{_HEALTH}.location.readonly",
    "openid",
)

#: Google does not say when its minutes begin, so the windows are rolling. Each user has 300 a
#: minute, a tenth of them reserved for live work; the other limits are the application's.
BUDGET = Budget(
    NAME,
    limits=[
        Limit(300, per="min", scope=Scope.CONNECTION, rolling=True, reserve=30),
        Limit(120_000, per="min", rolling=True, reserve=12_000),
        Limit(86_400_000, per="day"),
    ],
    pace_s_min=0.2,
)


class FitbitArguments(TypedDict):
    """The arguments of a source of Fitbit."""

    name: str
    title: str
    base_url: str
    auth: OAuth2
    budget: Budget
    classify: Classify


def fitbit(
    *,
    client_id: str,
    client_secret: Secret,
    redirect_uris: Sequence[str] = (),
    budget: Budget = BUDGET,
    url: str | None = None,
) -> FitbitArguments:
    """Return the arguments of a Fitbit source; `url` is a sandbox in place of all three hosts."""
    auth = OAuth2(
        authorize_url=AUTHORIZE_URL if url is None else f"{url}/o/oauth2/v2/auth",
        token_url=TOKEN_URL if url is None else f"{url}/token",
        revoke_url=REVOKE_URL if url is None else f"{url}/revoke",
        client_id=client_id,
        client_secret=client_secret,
        redirect_uris=tuple(redirect_uris),
        scopes=SCOPES,
        rotation=Rotation.NEVER,
        # Google gives a refresh token only with `offline`, and a second time only with `consent`.
        consent_params={"access_type": "offline", "prompt": "consent"},
        account_of=account_of,
    )
    return FitbitArguments(
        name=NAME,
        title=TITLE,
        base_url=f"{url or API_URL}/v4",
        auth=auth,
        budget=budget,
        classify=classify,
    )


class Detail(msgspec.Struct, frozen=True):
    """A detail of an error."""

    reason: str | None = None


class GoogleProblem(msgspec.Struct, frozen=True):
    """An error of Google's API."""

    status: str = ""
    details: tuple[Detail, ...] = ()


class GoogleFault(msgspec.Struct, frozen=True):
    """The body of an error response."""

    error: GoogleProblem = GoogleProblem()


def classify(response: Response) -> Verdict:
    """Classify a 403, which may be about the user's consent or about a quota."""
    if response.status != 403:
        return None
    reasons = {each.reason for each in response.json(GoogleFault).error.details}
    if "ACCESS_TOKEN_SCOPE_INSUFFICIENT" in reasons:
        return ScopeMissing(
            "the user did not allow everything that is needed: the user must connect the account "
            "again, with every box ticked"
        )
    return Throttled() if "RATE_LIMIT_EXCEEDED" in reasons else None


def account_of(body: Mapping[str, Any]) -> object:
    """Return the Google account's id from the id token; None if it cannot be read.

    The signature is not checked: the token comes from Google itself, over TLS, in response to our
    request (OpenID Connect Core, 3.1.3.7).
    """
    parts = str(body.get("id_token") or "").split(".")
    if len(parts) != 3:
        return None
    try:
        claims = urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims).sub
    except (ValueError, msgspec.MsgspecError):
        return None


class _Claims(msgspec.Struct, frozen=True):
    sub: str
