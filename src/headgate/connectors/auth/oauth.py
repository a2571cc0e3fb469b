"""OAuth2 by authorization code with PKCE, and refresh; differences of providers are data.

This module talks to the authorization server. What happens with the tokens, and who may renew them,
is decided in `flow/connections/service.py` and `flow/connections/credentials.py`.

**When a worker dies between the provider's response and our commit**, the new pair is lost. What
that costs depends on what the provider does to the old refresh token (`Rotation`):

- it never changes (Google): nothing is lost, the next refresh gets a new pair;
- it is valid until the new pair is used (Fitbit): nothing is lost, because a pair is stored before
  it is used, and the old token returns the same pair once more;
- it is invalid at once (Strava, in the last hour of an access token; before that hour a refresh
  returns the present pair): the connection is lost, and the user must connect again. No client can
  prevent that; the window is one commit wide, and an outage of the store within it is waited out.
"""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Literal, TypeGuard
from urllib.parse import quote_plus, urlencode

import msgspec

from headgate.base.errors import (
    Forbidden,
    GrantRefused,
    InvalidInput,
    Malformed,
    RateLimited,
    SourceError,
    Transient,
)
from headgate.base.redact import redact
from headgate.base.secret import Secret
from headgate.connectors.auth.tokens import InHeader, Placement
from headgate.model.connection import Tokens
from headgate.net.retry_after import retry_after_s
from headgate.net.urls import join_url, origin_of
from headgate.ports.connections.auth import Auth, AuthContext, Consent, TokenPlacement
from headgate.ports.transport import Headers, Request, Response, Timeouts

TOKEN_LENGTH_MAX = 8_192
EXTERNAL_ID_LENGTH_MAX = 200
#: Renew this long before the expiry: longer than a chunk takes, shorter than any token is valid.
REFRESH_MARGIN_S = 300.0
#: The longest validity of a token that is believed.
EXPIRES_S_MAX = 10 * 365 * 86_400
#: Time-outs well below the lease under which tokens are renewed.
PATIENCE = Timeouts(connect_s=5.0, total_s=20.0, bytes_max=256 * 1024)
#: The wait after a 429 without Retry-After.
REST = timedelta(seconds=60)

_FORM = "application/x-www-form-urlencoded"
_NO_GRANT = "invalid_grant"
_NO_CLIENT = frozenset({"invalid_client", "unauthorized_client"})


class Rotation(StrEnum):
    """When a used refresh token becomes invalid."""

    NEVER = "never"
    UNTIL_USED = "until_used"
    AT_ONCE = "at_once"


#: Reads RFC 6749's error code from a response of the token endpoint; None if there is none.
ErrorOf = Callable[[Response], str | None]
#: Reads the provider's id of the account from the response with the first tokens, or from that of
#: `account_url`.
AccountOf = Callable[[Mapping[str, Any]], object]


def standard_error(response: Response) -> str | None:
    """Return the `error` of RFC 6749."""
    body = _object(response)
    error = body.get("error")
    return error if isinstance(error, str) else None


def no_account(body: Mapping[str, Any]) -> object:
    """Return None: the provider does not say whose tokens they are."""
    return None


class OAuth2(msgspec.Struct, frozen=True, kw_only=True):
    """The OAuth2 client of one application at one provider."""

    authorize_url: str
    token_url: str
    client_id: str
    client_secret: Secret
    scopes: tuple[str, ...] = ()
    #: The addresses that the provider may send users back to, exactly as written.
    redirect_uris: tuple[str, ...] = ()
    scope_separator: str = " "
    #: Whether the client's id and secret go into the form or into a Basic header.
    client_auth: Literal["body", "basic"] = "body"
    placement: Placement = InHeader()
    #: Whether there are refresh tokens; without them users connect again when a token expires.
    refreshes: bool = True
    refresh_margin_s: float = REFRESH_MARGIN_S
    rotation: Rotation = Rotation.AT_ONCE
    #: Further parameters of the consent page: `{"access_type": "offline"}`.
    consent_params: Mapping[str, str] = {}
    #: The issuer that the consent page must send back as `iss`, if it is set (RFC 9207).
    issuer: str | None = None
    error_of: ErrorOf = standard_error
    account_of: AccountOf = no_account
    #: The address to ask whose the first tokens are, if they come without an account.
    account_url: str | None = None
    #: The address at which an authorization is withdrawn (RFC 7009), if the provider has one, and
    #: the field of the form that carries the token.
    revoke_url: str | None = None
    revoke_field: Literal["token", "access_token"] = "token"

    def __post_init__(self) -> None:
        """Refuse fields that could never work."""
        if not isinstance(self.client_secret, Secret):
            raise InvalidInput("client_secret", "must be a headgate.Secret(…)")
        if not self.client_id:
            raise InvalidInput("client_id", "must not be empty")
        for url in (self.authorize_url, *self._called_urls):
            origin_of(url)
        for uri in self.redirect_uris:
            origin_of(uri)
            if "#" in uri:
                raise InvalidInput("redirect_uris", f"{uri!r} must have no fragment")
        if self.refresh_margin_s < 0:
            raise InvalidInput("refresh_margin_s", "must not be negative")

    @property
    def ports(self) -> frozenset[int]:
        """The ports that we call ourselves; only the user's browser calls the consent page."""
        return frozenset(origin_of(url).port for url in self._called_urls)

    @property
    def _called_urls(self) -> tuple[str, ...]:
        urls = (self.token_url, self.account_url, self.revoke_url)
        return tuple(url for url in urls if url is not None)

    def merge(self, other: Auth) -> "OAuth2 | None":
        """Return this with the scopes and redirect URIs of both; None if other fields differ."""
        if not isinstance(other, OAuth2):
            return None
        both = msgspec.structs.replace(
            self,
            scopes=tuple(dict.fromkeys(self.scopes + other.scopes)),
            redirect_uris=tuple(dict.fromkeys(self.redirect_uris + other.redirect_uris)),
        )
        alike = msgspec.structs.replace(other, scopes=both.scopes, redirect_uris=both.redirect_uris)
        return both if both == alike else None

    # Sending a user to the consent page, and getting the first tokens.

    def consent_url(self, consent: Consent) -> str:
        """Return the URL of the provider's consent page."""
        required = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": consent.redirect_uri,
            "state": consent.state.reveal(),
            "code_challenge": challenge_of(consent.verifier),
            "code_challenge_method": "S256",
        }
        scope = {"scope": self.scope_separator.join(self.scopes)} if self.scopes else {}
        params = {**required, **scope, **self.consent_params}
        return join_url(self.authorize_url, self.authorize_url, params)

    async def exchange(
        self, auth_context: AuthContext, query: Mapping[str, str], consent: Consent
    ) -> Tokens:
        """Get the first tokens for the code that the user came back with."""
        if self.issuer is not None and query.get("iss") != self.issuer:
            raise Forbidden("the response comes from another provider than the request went to")
        if error := query.get("error"):
            raise Forbidden(f"the account was not connected: {redact(error, length_max=100)}")
        code = query.get("code")
        if not code:
            raise InvalidInput("code", "the provider sent none")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": consent.redirect_uri,
            "code_verifier": consent.verifier.reveal(),
        }
        body = _object(await self._ask(auth_context, form))
        tokens = self._tokens(body, auth_context.clock.now())
        # The user may have unticked some scopes. The response or the redirect names those that
        # were granted; if neither does, all were (RFC 6749, 5.1).
        granted = tokens.scopes or self._scopes(query.get("scope"))
        account = await self._account(auth_context, body, tokens.access)
        return msgspec.structs.replace(
            tokens,
            scopes=self.scopes if granted is None else granted,
            external_id=None if account is None else str(account)[:EXTERNAL_ID_LENGTH_MAX],
        )

    async def _account(
        self, auth_context: AuthContext, body: Mapping[str, Any], access: Secret
    ) -> object:
        if self.account_url is None:
            return self.account_of(body)
        placement = self.place_token(access)
        response = await auth_context.transport.send(
            Request(
                method="GET",
                url=join_url(self.account_url, self.account_url, placement.params),
                headers=Headers([("accept", "application/json"), *placement.headers.items()]),
                timeouts=PATIENCE,
            )
        )
        host = origin_of(self.account_url)
        if not 200 <= response.status < 300:
            raise Transient(f"{host} said {response.status} when asked whose account it is")
        account = self.account_of(_object(response))
        if account is None:
            # Without it, two people's data could be mixed when one connects again.
            raise Malformed(f"{host} did not say whose account it is")
        return account

    # Renewing.

    async def refresh(self, auth_context: AuthContext, refresh_token: Secret) -> Tokens:
        """Get new tokens for a refresh token."""
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()}
        return self._tokens(_object(await self._ask(auth_context, form)), auth_context.clock.now())

    def place_token(self, access: Secret) -> TokenPlacement:
        """Return the access token's place in a request."""
        return self.placement.place(access)

    # Withdrawing.

    @property
    def can_revoke(self) -> bool:
        """Whether the provider has an endpoint for it."""
        return self.revoke_url is not None

    async def revoke(
        self, auth_context: AuthContext, access: Secret, refresh_token: Secret | None
    ) -> None:
        """Withdraw the authorization; 400 and 401 say that the provider does not know it."""
        assert self.revoke_url is not None, "only called if it can"
        whole = refresh_token if self.revoke_field == "token" and refresh_token else access
        form: dict[str, str] = {self.revoke_field: whole.reveal()}
        status = (await self._post(auth_context, self.revoke_url, form)).status
        if not 200 <= status < 300 and status not in (400, 401):
            raise Transient(f"{origin_of(self.revoke_url)} said {status} to a revocation")

    # The token endpoint.

    async def _ask(self, auth_context: AuthContext, form: Mapping[str, str]) -> Response:
        response = await self._post(auth_context, self.token_url, form)
        if error := self._problem(response, auth_context.clock.now()):
            raise error
        return response

    async def _post(self, auth_context: AuthContext, url: str, form: Mapping[str, str]) -> Response:
        headers = {"content-type": _FORM, "accept": "application/json"}
        fields = dict(form)
        if self.client_auth == "basic":
            headers["authorization"] = f"Basic {self._basic()}"
        else:
            fields["client_id"] = self.client_id
            fields["client_secret"] = self.client_secret.reveal()
        return await auth_context.transport.send(
            Request(
                method="POST",
                url=url,
                headers=Headers(headers.items()),
                body=urlencode(fields).encode(),
                timeouts=PATIENCE,
            )
        )

    def _problem(self, response: Response, now: datetime) -> SourceError | None:
        """Return what is wrong with a response. Only `invalid_grant` is about the user's grant."""
        status, host = response.status, origin_of(self.token_url)
        if status >= 500 or status == 408:
            return Transient(f"{host} said {status} to a request for tokens")
        word = self._word(response)
        if word == _NO_GRANT:
            lost = self.rotation is Rotation.AT_ONCE
            hint = "; the response to an earlier refresh may have been lost" if lost else ""
            return GrantRefused(f"{host} no longer accepts the grant ({_NO_GRANT}){hint}")
        if word in _NO_CLIENT:
            return Forbidden(f"{host} does not know our client: check client_id and client_secret")
        if status == 429:
            wait_s = retry_after_s(response.headers, now)
            wait = REST if wait_s is None else timedelta(seconds=wait_s)
            return RateLimited(wait, f"{host} refused a request for tokens (429)")
        if not 200 <= status < 300 or word is not None:
            # It says nothing about the grant, so the credentials may still be valid.
            about = f" ({redact(word, length_max=60)})" if word else ""
            return Transient(f"{host} said {status}{about} to a request for tokens")
        return None

    def _word(self, response: Response) -> str | None:
        try:
            return self.error_of(response)
        except Malformed:
            return None

    def _tokens(self, body: Mapping[str, Any], now: datetime) -> Tokens:
        access, refresh = body.get("access_token"), body.get("refresh_token")
        if not _is_token(access):
            raise Malformed(f"{origin_of(self.token_url)} gave no access token")
        return Tokens(
            access=Secret(access),
            refresh=Secret(refresh) if _is_token(refresh) else None,
            expires_at=_end(body, now),
            scopes=self._scopes(body.get("scope")),
        )

    def _scopes(self, text: object) -> tuple[str, ...] | None:
        if not isinstance(text, str):
            return None
        return tuple(each for each in text.split(self.scope_separator) if each)

    def _basic(self) -> str:
        # RFC 6749, 2.3.1: both are encoded as in a form before they are joined.
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret.reveal())}"
        return b64encode(pair.encode()).decode()


def challenge_of(verifier: Secret) -> str:
    """Return PKCE's S256 challenge of a verifier."""
    digest = sha256(verifier.reveal().encode("ascii")).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _object(response: Response) -> Mapping[str, Any]:
    body = response.json()
    if not isinstance(body, dict):
        raise Malformed("the response of the authorization server is not a JSON object")
    return body


def _is_token(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= TOKEN_LENGTH_MAX


def _end(body: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return when the access token expires, by our clock; `expires_in` needs no common clock."""
    seconds = body.get("expires_in")
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit():
        seconds = int(seconds[:12])
    if not isinstance(seconds, int | float):
        return None
    return now + timedelta(seconds=min(max(seconds, 0), EXPIRES_S_MAX))
