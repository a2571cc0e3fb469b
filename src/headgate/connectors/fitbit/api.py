"""What is true of Fitbit for everybody: where it is, how people let us in, what it allows.

Fitbit's own API was turned off in November 2026; its data is read from the Google Health API v4,
and its users sign in at Google.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from headgate.base.errors import ScopeMissing
from headgate.base.secret import Secret
from headgate.connectors.answers import Classify, Throttled, Verdict
from headgate.connectors.oauth import OAuth2, Rotation
from headgate.model.budget import Budget, Limit, Scope
from headgate.ports.transport import Response

NAME, TITLE = "fitbit", "Fitbit"
#: The API, the page where users sign in, and where tokens are given are on three hosts.
API_URL = "https://health.googleapis.com"
AUTHORIZE_URL = "https://accounts.google.com/o/oauth2/v2/auth"
TOKEN_URL = "https://oauth2.googleapis.com/token"

_HEALTH = "https://www.googleapis.com/auth/googlehealth"
#: The last but one is for TCX files: they tell where people were. `openid` tells whose account it
#: is, so that nobody's history is mixed with another's when they connect again.
SCOPES = (
    f"{_HEALTH}.activity_and_fitness.readonly",
    f"{_HEALTH}.health_metrics_and_measurements.readonly",
    f"{_HEALTH}.location.readonly",
    "openid",
)

#: Google does not say when its minutes begin, so they slide. Each user has 300, of which a tenth is
#: left for live work; the application has the rest.
BUDGET = Budget(
    NAME,
    limits=[
        Limit(300, per="min", scope=Scope.CONNECTION, rolling=True, reserve=30),
        Limit(120_000, per="min", rolling=True, reserve=12_000),
        Limit(86_400_000, per="day"),
    ],
    pace_s_min=0.2,
)


class FitbitApi(TypedDict):
    """What a source of Fitbit is made with."""

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
) -> FitbitApi:
    """Fitbit for one application; `url` is its sandbox's, which is all three hosts in one."""
    auth = OAuth2(
        authorize_url=AUTHORIZE_URL if url is None else f"{url}/o/oauth2/v2/auth",
        token_url=TOKEN_URL if url is None else f"{url}/token",
        client_id=client_id,
        client_secret=client_secret,
        redirect_uris=tuple(redirect_uris),
        scopes=SCOPES,
        rotation=Rotation.NEVER,
        # Without the first Google gives no refresh token; without the second, only the first time.
        consent_params={"access_type": "offline", "prompt": "consent"},
        account_of=account_of,
    )
    return FitbitApi(
        name=NAME,
        title=TITLE,
        base_url=f"{url or API_URL}/v4",
        auth=auth,
        budget=budget,
        classify=classify,
    )


class Detail(msgspec.Struct, frozen=True):
    """More about an error."""

    reason: str | None = None


class GoogleProblem(msgspec.Struct, frozen=True):
    """An error of Google's."""

    status: str = ""
    details: tuple[Detail, ...] = ()


class GoogleFault(msgspec.Struct, frozen=True):
    """What Google says when something is wrong."""

    error: GoogleProblem = GoogleProblem()


def classify(response: Response) -> Verdict:
    """What the status does not say: a 403 may be about the user's grant, or about a quota."""
    if response.status != 403:
        return None
    reasons = {each.reason for each in response.json(GoogleFault).error.details}
    if "ACCESS_TOKEN_SCOPE_INSUFFICIENT" in reasons:
        return ScopeMissing(
            "the user did not allow everything that is needed: the account must be connected "
            "again, with every box ticked"
        )
    return Throttled() if "RATE_LIMIT_EXCEEDED" in reasons else None


def account_of(body: Mapping[str, Any]) -> object:
    """The Google account, from the id token; None where there is none that can be read.

    Its signature is not checked: it comes from Google itself, over TLS, in answer to our request
    (OpenID Connect Core, 3.1.3.7).
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
