"""The description of Strava's API: address, authentication, limits and errors.

Sources and destinations take the same `strava()`, so that they share one budget and one connection:
`StravaUploads(**api)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from headgate.base.errors import ScopeMissing, Terminal
from headgate.base.secret import Secret
from headgate.connectors.auth.oauth import OAuth2, Rotation
from headgate.connectors.http.answers import Classify, Verdict
from headgate.connectors.http.rates import Counts, read_all, read_list
from headgate.model.budget import Budget, Limit
from headgate.ports.transport import Response

#: The provider, in settings, connections and budgets.
NAME = "strava"
TITLE = "Strava"
URL = "https://www.strava.com"
#: The scopes to read all of an athlete's data and to upload.
SCOPES = ("read", "activity:read_all", "activity:write")
#: The scopes to read everything of an athlete.
READ_SCOPES = ("read", "activity:read_all")
#: The scopes to upload, and to poll an upload.
UPLOAD_SCOPES = ("read", "activity:write")

#: The limits of a new application. The read limits come first: backfills are spread over the first
#: of the shortest windows. Each day 240 reads are reserved for live work: 60 new activities.
BUDGET = Budget(
    NAME,
    limits=[
        Limit(100, per="15min", only="read", reserve=20),
        Limit(1000, per="day", only="read", reserve=240),
        Limit(200, per="15min", reserve=40),
        Limit(2000, per="day", reserve=400),
    ],
    # Strava names no number. A browser opens six connections to a host; a few more keep a burst of
    # live work from waiting behind a backfill.
    slots=8,
)
#: A header may be missing, or be only a comma; our own count goes on without it.
COUNTS = read_all(
    read_list("X-RateLimit-Usage", ("15min", "day")),
    read_list("X-ReadRateLimit-Usage", ("read 15min", "read day")),
)


class StravaArguments(TypedDict):
    """The arguments of a source or a destination of Strava."""

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
) -> StravaArguments:
    """Return the arguments of a Strava source or destination; `url` may be a sandbox."""
    auth = OAuth2(
        authorize_url=f"{url}/oauth/authorize",
        token_url=f"{url}/oauth/token",
        revoke_url=f"{url}/oauth/deauthorize",
        revoke_field="access_token",
        client_id=client_id,
        client_secret=client_secret,
        redirect_uris=tuple(redirect_uris),
        scopes=tuple(scopes),
        scope_separator=",",
        rotation=Rotation.AT_ONCE,
        error_of=error_of,
        account_of=account_of,
    )
    return StravaArguments(
        name=NAME,
        title=TITLE,
        base_url=f"{url}/api/v3",
        auth=auth,
        budget=budget,
        counts=COUNTS,
        classify=classify,
    )


class StravaProblem(msgspec.Struct, frozen=True):
    """One problem of an error response."""

    resource: str | None = None
    field: str | None = None
    code: str | None = None


class StravaFault(msgspec.Struct, frozen=True):
    """The body of an error response."""

    message: str = ""
    errors: tuple[StravaProblem, ...] = ()


def classify(response: Response) -> Verdict:
    """Classify what the status alone does not tell: a missing scope, an inactive application."""
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
    """Return RFC 6749's error code for the field that Strava calls wrong."""
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
    """Return the athlete's id, which comes only with the first pair of tokens."""
    athlete = body.get("athlete")
    return athlete.get("id") if isinstance(athlete, dict) else None
