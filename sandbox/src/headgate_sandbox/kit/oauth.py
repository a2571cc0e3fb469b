"""This module serves the OAuth2 endpoints: the page where a user approves, and the token endpoint.

The page approves by itself, for the user that `sandbox_user` names, or else for the first user. A
provider overrides the body of a token and of an error, and the separator of its scopes.
"""

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.forms import read_form
from headgate_sandbox.kit.tokens import Grant, OAuthRefused, Tokens


class OAuth:
    """The OAuth2 endpoints for one store of tokens."""

    #: The separator between scopes in a request; RFC 6749 says a space.
    scope_separator = " "
    #: The scopes that exist; None means that any word is a scope.
    scopes_known: frozenset[str] | None = None

    def __init__(
        self,
        clock: Clock,
        tokens: Tokens,
        *,
        clients: Mapping[str, str],
        find_user: Callable[[str | None], str | None],
    ) -> None:
        """Serve `clients` (id to secret); `find_user` finds a user by name, or the first one."""
        self.tokens = tokens
        #: Whether the user on the page approves; if not, the client gets `access_denied`.
        self.approves = True
        #: Scopes that the user on the page unticks.
        self.unticked: set[str] = set()
        self._clock = clock
        self._clients = dict(clients)
        self._find_user = find_user

    # What a provider may override.

    def token_body(self, grant: Grant, *, first: bool) -> JsonObject:
        """The body with the tokens; `first` is True for the exchange of a code."""
        body: dict[str, object] = {"token_type": "Bearer", "access_token": grant.access_token}
        if grant.expires_at is not None:
            body["expires_in"] = self.expires_in_s(grant)
        if grant.refresh_token is not None:
            body["refresh_token"] = grant.refresh_token
        return {**body, "scope": self.scope_separator.join(grant.scopes)}

    def refused(self, refusal: OAuthRefused) -> Response:
        """The answer to a refused request."""
        body = {"error": refusal.error, "error_description": f"{refusal.field} is not valid"}
        return json_answer(body, 401 if refusal.error == "invalid_client" else 400)

    def wants_refresh(self, asked: Mapping[str, str]) -> bool:
        """Whether the client asked for a refresh token; at some providers it must ask."""
        return True

    # The endpoints.

    async def authorize(self, request: Request) -> Response:
        """Approve for the user, and send the browser back to the client with a code."""
        asked = dict(request.query_params)
        try:
            redirect_uri = self._check_authorize(asked)
            self._check_scopes(asked)
            user = self._find_user(asked.get("sandbox_user"))
            if user is None:
                raise OAuthRefused("invalid_request", "sandbox_user")
        except OAuthRefused as refusal:
            return self.refused(refusal)
        back = {"state": asked["state"]} if "state" in asked else {}
        if not self.approves:
            return RedirectResponse(_with(redirect_uri, {**back, "error": "access_denied"}), 302)
        granted = tuple(each for each in self._scopes(asked) if each not in self.unticked)
        code = self.tokens.make_code(
            user,
            asked["client_id"],
            granted,
            asked.get("code_challenge"),
            refreshable=self.wants_refresh(asked),
        )
        scope = self.scope_separator.join(granted)
        return RedirectResponse(_with(redirect_uri, {**back, "code": code, "scope": scope}), 302)

    async def token(self, request: Request) -> Response:
        """Exchange a code or a refresh token for an access token."""
        asked = (await read_form(request)).fields
        try:
            client_id = self.check_client(asked)
            match asked.get("grant_type"):
                case "authorization_code":
                    verifier = asked.get("code_verifier")
                    grant = self.tokens.exchange(asked.get("code", ""), client_id, verifier)
                    return json_answer(self.token_body(grant, first=True))
                case "refresh_token" if self.tokens.rules.refreshable:
                    grant = self.tokens.refresh(asked.get("refresh_token", ""), client_id)
                    return json_answer(self.token_body(grant, first=False))
                case _:
                    raise OAuthRefused("unsupported_grant_type", "grant_type")
        except OAuthRefused as refusal:
            return self.refused(refusal)

    def check_client(self, asked: Mapping[str, str]) -> str:
        """The id of the client in these fields; refuses an unknown client or a wrong secret."""
        client_id = asked.get("client_id", "")
        if client_id not in self._clients:
            raise OAuthRefused("invalid_client", "client_id")
        if self._clients[client_id] != asked.get("client_secret"):
            raise OAuthRefused("invalid_client", "client_secret")
        return client_id

    def expires_in_s(self, grant: Grant) -> int:
        """Seconds that the access token has left."""
        assert grant.expires_at is not None
        return max(0, int((grant.expires_at - self._clock.now()).total_seconds()))

    def _check_authorize(self, asked: Mapping[str, str]) -> str:
        if asked.get("client_id") not in self._clients:
            raise OAuthRefused("invalid_client", "client_id")
        redirect_uri = asked.get("redirect_uri", "")
        parts = urlsplit(redirect_uri)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OAuthRefused("invalid_request", "redirect_uri")
        if asked.get("response_type") != "code":
            raise OAuthRefused("unsupported_response_type", "response_type")
        if "code_challenge" in asked and asked.get("code_challenge_method") != "S256":
            raise OAuthRefused("invalid_request", "code_challenge_method")
        return redirect_uri

    def _check_scopes(self, asked: Mapping[str, str]) -> None:
        if self.scopes_known is not None and not self.scopes_known.issuperset(self._scopes(asked)):
            raise OAuthRefused("invalid_scope", "scope")

    def _scopes(self, asked: Mapping[str, str]) -> list[str]:
        return [each for each in asked.get("scope", "").split(self.scope_separator) if each]


def bearer(request: Request) -> str:
    """The access token in the Authorization header, or an empty text."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _with(url: str, more: Mapping[str, str]) -> str:
    """The address with more parameters in its query."""
    parts = urlsplit(url)
    query = [*parse_qsl(parts.query, keep_blank_values=True), *more.items()]
    return urlunsplit(parts._replace(query=urlencode(query)))
