"""What is true of Strava for everybody: where it is, how athletes let us in, what it allows.

Sources and destinations are made with the same `strava()`, so that they share one budget and one
way in: `StravaUploads(**api)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from headgate.base.errors import ScopeMissing, Terminal
from headgate.base.secret import Secret
from headgate.connectors.answers import Classify, Verdict
from headgate.connectors.oauth import OAuth2, Rotation
from headgate.connectors.rates import Counts, listed, together
from headgate.model.budget import Budget, Limit
from headgate.ports.transport import Response

NAME, TITLE = "strava", "Strava"
URL = "https://www.strava.com"
#: Enough to read everything of an athlete's and to upload.
SCOPES = ("read", "activity:read_all", "activity:write")
#: Enough to read everything of an athlete's.
READ_SCOPES = ("read", "activity:read_all")
#: Enough to upload, and to ask what became of it.
UPLOAD_SCOPES = ("read", "activity:write")

#: A new application's limits. The read limits come first: backfill is spread over the first of the
#: shortest. A day keeps 240 reads for live work, which is 60 new activities.
BUDGET = Budget(
    NAME,
    limits=[
        Limit(100, per="15min", only="read", reserve=20),
        Limit(1000, per="day", only="read", reserve=240),
        Limit(200, per="15min", reserve=40),
        Limit(2000, per="day", reserve=400),
    ],
)
#: A header may be missing, or be nothing but a comma: our own count goes on without it.
COUNTS = together(
    listed("X-RateLimit-Usage", ("15min", "day")),
    listed("X-ReadRateLimit-Usage", ("read 15min", "read day")),
)


class StravaApi(TypedDict):
    """What a source and a destination of Strava are made with."""

    name: str
    title: str
    base_url: str
    auth: OAuth2
    budget: Budget
    counts: Counts
    classify: Classify


def strava(
    *,
    client_id: str,
    client_secret: Secret,
    redirect_uris: Sequence[str] = (),
    scopes: Sequence[str] = SCOPES,
    budget: Budget = BUDGET,
    url: str = URL,
) -> StravaApi:
    """Strava for one application; `url` is its sandbox's, where it is not Strava itself."""
    auth = OAuth2(
        authorize_url=f"{url}/oauth/authorize",
        token_url=f"{url}/oauth/token",
        client_id=client_id,
        client_secret=client_secret,
        redirect_uris=tuple(redirect_uris),
        scopes=tuple(scopes),
        scope_separator=",",
        rotation=Rotation.AT_ONCE,
        error_of=error_of,
        account_of=account_of,
    )
    return StravaApi(
        name=NAME,
        title=TITLE,
        base_url=f"{url}/api/v3",
        auth=auth,
        budget=budget,
        counts=COUNTS,
        classify=classify,
    )


class StravaProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    resource: str | None = None
    field: str | None = None
    code: str | None = None


class StravaFault(msgspec.Struct, frozen=True):
    """What Strava says when something is wrong."""

    message: str = ""
    errors: tuple[StravaProblem, ...] = ()


def classify(response: Response) -> Verdict:
    """What the status does not say: a missing permission, or an application that was shut off."""
    if response.status not in (401, 403):
        return None
    for each in response.json(StravaFault).errors:
        if each.code == "missing" and (each.field or "").endswith("_permission"):
            return ScopeMissing(
                "the user did not allow everything that is needed: the account must be connected "
                "again, with every box ticked"
            )
        if (each.resource, each.field, each.code) == ("Application", "Status", "Inactive"):
            return Terminal(
                "Strava has made the application inactive: its owner must subscribe, or it serves "
                "more athletes than it may"
            )
    return None


def error_of(response: Response) -> str | None:
    """Strava names the field that is wrong, where RFC 6749 has a word."""
    if response.status < 400:
        return None
    for each in response.json(StravaFault).errors:
        match each.field:
            case "refresh_token" | "code" | "code_verifier":
                return "invalid_grant"
            case "client_id" | "client_secret":
                return "invalid_client"
    return None


def account_of(body: Mapping[str, Any]) -> object:
    """The athlete comes with the first pair of tokens, and with no other."""
    athlete = body.get("athlete")
    return athlete.get("id") if isinstance(athlete, dict) else None
