"""The description of Foursquare's v2 API: addresses, authentication, limits and errors.

An error is known by its type, never by its status alone: the same 403 is a limit that passes within
the hour, or a denial that never does.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec

from headgate.base.errors import AuthExpired, Forbidden, Malformed, Terminal, Transient
from headgate.base.redact import redact
from headgate.base.secret import Secret
from headgate.connectors.auth.oauth import OAuth2
from headgate.connectors.auth.tokens import InQuery
from headgate.connectors.http.answers import Classify, Throttled, Verdict
from headgate.connectors.http.rates import Counts, read_remaining
from headgate.model.budget import Budget, Limit, Scope
from headgate.ports.transport import Headers, Response

#: The provider, in settings, connections and budgets.
NAME = "foursquare"
TITLE = "Foursquare"
#: The API and the sign-in page are on two hosts.
API_URL, AUTH_URL = "https://api.foursquare.com", "https://foursquare.com"
#: The day as of which we know the API. Every request has to name one, and gets answers of that day.
VERSION = "20260101"
#: What each user's token may ask in an hour, and the whole application in a UTC day.
REQUESTS_PER_HOUR, REQUESTS_PER_DAY = 500, 99_500
#: The hour is a moving one, and counts for each group of endpoints; we use only `users/*`.
HOURLY = Limit(REQUESTS_PER_HOUR, per="hour", scope=Scope.CONNECTION, rolling=True)

_RESET = "X-RateLimit-Reset"
_read_used = read_remaining("X-RateLimit-Remaining", HOURLY.name, of=REQUESTS_PER_HOUR)
_DETAIL_LENGTH_MAX = 200
#: The end of the year 9999.
EPOCH_S_MAX = 253_402_300_799


class FoursquareArguments(TypedDict):
    """The arguments of a source of Foursquare."""

    name: str
    title: str
    base_url: str
    auth: OAuth2
    budget: Budget
    counts: Counts
    classify: Classify


def foursquare(
    *,
    client_id: str,
    client_secret: Secret,
    redirect_uris: Sequence[str] = (),
    requests_per_day: int = REQUESTS_PER_DAY,
    url: str | None = None,
) -> FoursquareArguments:
    """Return the arguments of a Foursquare source; `url` is a sandbox in place of both hosts.

    A token is valid until its user revokes it, and cannot be renewed.
    """
    auth_url, base_url = url or AUTH_URL, f"{url or API_URL}/v2"
    auth = OAuth2(
        authorize_url=f"{auth_url}/oauth2/authenticate",
        token_url=f"{auth_url}/oauth2/access_token",
        client_id=client_id,
        client_secret=client_secret,
        redirect_uris=tuple(redirect_uris),
        placement=InQuery("oauth_token"),
        refreshes=False,
        # The token comes alone.
        account_url=f"{base_url}/users/self?v={VERSION}",
        account_of=account_of,
    )
    return FoursquareArguments(
        name=NAME,
        title=TITLE,
        base_url=base_url,
        auth=auth,
        budget=Budget(NAME, limits=[HOURLY, daily(requests_per_day)]),
        counts=read_counts,
        classify=classify,
    )


def read_counts(headers: Headers) -> Mapping[str, int]:
    """Return how many requests of the user's hourly limit are used; nothing for a refusal.

    A refusal says itself when to go on; by its count, none left, we would wait for a whole hour.
    """
    return {} if headers.get(_RESET) else _read_used(headers)


def daily(requests: int) -> Limit:
    """Return the limit of the whole application in a UTC day."""
    return Limit(requests, per="day")


class FoursquareMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The part of every response that says how the request went."""

    code: int = 200
    error_type: str | None = None
    error_detail: str | None = None


class FoursquareFault(msgspec.Struct, frozen=True):
    """The body of a response, as far as an error is in it."""

    meta: FoursquareMeta = FoursquareMeta()


def classify(response: Response) -> Verdict:
    """Classify a response by the type of its error."""
    try:
        meta = response.json(FoursquareFault).meta
    except Malformed:
        if response.status != 403:
            raise
        meta = FoursquareMeta(code=403)
    known = _by_type(response, meta)
    if known is not None:
        return known
    if response.status == 403:
        return Malformed(f"Foursquare said 403, and not why{_detail(meta)}")
    if response.status < 300 <= meta.code:
        return Malformed(f"Foursquare gave an error under status {response.status}{_detail(meta)}")
    # A warning such as `deprecated`, or what the status says well enough.
    return None


def _by_type(response: Response, meta: FoursquareMeta) -> Verdict:
    match meta.error_type:
        case "invalid_auth":
            return AuthExpired(f"Foursquare no longer accepts the token{_detail(meta)}")
        case "not_authorized":
            return Forbidden(f"Foursquare does not allow this{_detail(meta)}")
        case "rate_limit_exceeded":
            return Throttled(until=_reset_at(response.headers), limit=HOURLY.name)
        case "quota_exceeded":
            # It ends with the UTC day, which is when the limit's window ends. A limit's name does
            # not depend on how many requests it allows.
            return Throttled(limit=daily(1).name)
        case "param_error" | "endpoint_error":
            return Terminal(f"Foursquare does not accept the request{_detail(meta)}")
        case "server_error":
            return Transient(f"Foursquare failed{_detail(meta)}")
        case _:
            return None


def _detail(meta: FoursquareMeta) -> str:
    words = [each for each in (meta.error_type, meta.error_detail) if each]
    return f" ({redact(': '.join(words), length_max=_DETAIL_LENGTH_MAX)})" if words else ""


def _reset_at(headers: Headers) -> datetime | None:
    text = (headers.get(_RESET) or "").strip()
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(EPOCH_S_MAX)):
        return None
    return datetime.fromtimestamp(min(int(text), EPOCH_S_MAX), UTC)


def account_of(body: Mapping[str, Any]) -> object:
    """Return the user's id at Foursquare; None if it cannot be read."""
    try:
        return msgspec.convert(body, _Self).response.user.id
    except msgspec.ValidationError:
        return None


class _User(msgspec.Struct, frozen=True):
    id: str


class _SelfResponse(msgspec.Struct, frozen=True):
    user: _User


class _Self(msgspec.Struct, frozen=True):
    response: _SelfResponse
