"""This module stores OAuth2 codes and tokens, and applies the rules of refreshing.

The rules differ between providers, so they are settings (`TokenRules`). The endpoints are in
`oauth.py`.
"""

from base64 import urlsafe_b64encode
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec

from headgate.base.clock import Clock
from headgate_sandbox.kit.seeded import token


class OAuthRefused(Exception):
    """The authorization server refuses: an error code of RFC 6749, and the field at fault."""

    def __init__(self, error: str, field: str) -> None:
        """Refuse with `error`, such as `invalid_grant`, because of `field`."""
        super().__init__(f"{error}: {field}")
        self.error = error
        self.field = field


class TokenRules(msgspec.Struct, frozen=True, kw_only=True):
    """How long a provider's tokens last, and what a refresh gives; by default, a new pair."""

    #: Seconds that an access token lasts; None means for ever.
    access_s: int | None = 3_600
    #: Seconds in which a code can be exchanged; it can be exchanged once.
    code_s: int = 600
    #: Whether there are refresh tokens at all.
    refreshable: bool = True
    #: Whether a refresh that gives a new access token gives a new refresh token too.
    rotates: bool = True
    #: A refresh returns the current pair while its access token has more seconds left than this.
    keep_above_s: int | None = None
    #: If True, the old refresh token returns the new pair again until that pair is used, so that
    #: a client that lost the answer can ask again. If False, it stops working at once.
    old_lives_until_used: bool = False


class Grant(msgspec.Struct, kw_only=True):
    """What one user allowed one client to do, with the current pair of tokens."""

    user: str
    client_id: str
    scopes: tuple[str, ...]
    access_token: str
    #: None means never.
    expires_at: datetime | None
    refresh_token: str | None
    #: The refresh token before this one, while it still works.
    previous_refresh: str | None = None


class _Access(msgspec.Struct):
    grant: Grant
    expires_at: datetime | None


class _Code(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    client_id: str
    scopes: tuple[str, ...]
    challenge: str | None
    refreshable: bool
    expires_at: datetime


class TokenState(msgspec.Struct, frozen=True, kw_only=True):
    """Every token that is good for something, so that it can be restored."""

    made: int
    grants: list[Grant]
    #: The place of its grant, and when it expires.
    access: dict[str, tuple[int, datetime | None]]
    refresh: dict[str, int]


class Tokens:
    """Holds every code and token that this provider gave out."""

    def __init__(self, clock: Clock, rules: TokenRules, seed: int) -> None:
        """Begin without tokens; equal seeds give equal tokens."""
        self.rules = rules
        self._clock = clock
        self._seed = seed
        self._made = 0
        #: How often something was made or ended.
        self.changes = 0
        self._codes: dict[str, _Code] = {}
        self._access: dict[str, _Access] = {}
        self._refresh: dict[str, Grant] = {}

    def state(self) -> TokenState:
        """All tokens as they are now; codes last for minutes, and are left out."""
        grants = [each.grant for each in self._access.values()] + list(self._refresh.values())
        different = list({id(grant): grant for grant in grants}.values())
        place = {id(grant): number for number, grant in enumerate(different)}
        return TokenState(
            made=self._made,
            grants=different,
            access={
                name: (place[id(each.grant)], each.expires_at)
                for name, each in self._access.items()
            },
            refresh={name: place[id(grant)] for name, grant in self._refresh.items()},
        )

    def restore(self, state: TokenState) -> None:
        """Hold what `state` holds, and nothing else."""
        self._made = state.made
        self._access = {
            name: _Access(state.grants[grant], expires_at)
            for name, (grant, expires_at) in state.access.items()
        }
        self._refresh = {name: state.grants[grant] for name, grant in state.refresh.items()}

    def issue(
        self, user: str, client_id: str, scopes: tuple[str, ...], *, refreshable: bool = True
    ) -> Grant:
        """Make a new grant with its first tokens; `refreshable` adds a refresh token."""
        grant = Grant(
            user=user,
            client_id=client_id,
            scopes=scopes,
            access_token="",
            expires_at=None,
            refresh_token=None,
        )
        self._renew_access(grant)
        if self.rules.refreshable and refreshable:
            self._renew_refresh(grant)
        return grant

    def make_code(
        self,
        user: str,
        client_id: str,
        scopes: tuple[str, ...],
        challenge: str | None = None,
        *,
        refreshable: bool = True,
    ) -> str:
        """Make a code for one exchange; after a PKCE challenge the exchange needs its verifier."""
        code = self._make("code")
        expires_at = self._clock.now() + timedelta(seconds=self.rules.code_s)
        self._codes[code] = _Code(
            user=user,
            client_id=client_id,
            scopes=scopes,
            challenge=challenge,
            refreshable=refreshable,
            expires_at=expires_at,
        )
        return code

    def exchange(self, code: str, client_id: str, verifier: str | None = None) -> Grant:
        """Exchange a code for a grant; the code is spent even if the exchange is refused."""
        made = self._codes.pop(code, None)
        if made is None or made.client_id != client_id or self._clock.now() >= made.expires_at:
            raise OAuthRefused("invalid_grant", "code")
        if made.challenge is not None and made.challenge != challenge_of(verifier or ""):
            raise OAuthRefused("invalid_grant", "code_verifier")
        return self.issue(made.user, client_id, made.scopes, refreshable=made.refreshable)

    def refresh(self, refresh_token: str, client_id: str) -> Grant:
        """Refresh by the provider's rules; returns the grant with the pair that is valid now."""
        grant = self._refresh.get(refresh_token)
        if grant is None or grant.client_id != client_id:
            raise OAuthRefused("invalid_grant", "refresh_token")
        if refresh_token == grant.previous_refresh or self._keeps(grant):
            return grant
        self._forget_previous(grant)
        self._renew_access(grant)
        if self.rules.rotates:
            grant.previous_refresh = grant.refresh_token
            self._renew_refresh(grant)
            if not self.rules.old_lives_until_used:
                self._forget_previous(grant)
        return grant

    def find(self, access_token: str) -> Grant | None:
        """Find the grant of a valid access token; its first use ends the previous refresh token."""
        access = self._access.get(access_token)
        if access is None or self._is_over(access.expires_at):
            return None
        if access_token == access.grant.access_token:
            self._forget_previous(access.grant)
        return access.grant

    def owner(self, access_token: str) -> Grant | None:
        """The grant of a token, even one that has expired."""
        access = self._access.get(access_token)
        return access.grant if access else None

    def refreshed_by(self, refresh_token: str) -> Grant | None:
        """The grant that a refresh token belongs to."""
        return self._refresh.get(refresh_token)

    def expire(self, access_token: str) -> None:
        """Let this access token expire now; its refresh token stays valid."""
        if access := self._access.get(access_token):
            self.changes += 1
            access.expires_at = self._clock.now()
            if access.grant.access_token == access_token:
                access.grant.expires_at = access.expires_at

    def revoke(self, user: str, client_id: str) -> None:
        """Revoke all tokens that the user gave the client."""
        self.changes += 1
        self._access = {
            name: access
            for name, access in self._access.items()
            if (access.grant.user, access.grant.client_id) != (user, client_id)
        }
        self._refresh = {
            name: grant
            for name, grant in self._refresh.items()
            if (grant.user, grant.client_id) != (user, client_id)
        }

    def _keeps(self, grant: Grant) -> bool:
        if self.rules.keep_above_s is None or grant.expires_at is None:
            return False
        return grant.expires_at - self._clock.now() > timedelta(seconds=self.rules.keep_above_s)

    def _renew_access(self, grant: Grant) -> None:
        # Older access tokens stay valid until they expire, as at every provider here.
        grant.access_token = self._make("access")
        grant.expires_at = None
        if self.rules.access_s is not None:
            grant.expires_at = self._clock.now() + timedelta(seconds=self.rules.access_s)
        self._access[grant.access_token] = _Access(grant, grant.expires_at)

    def _renew_refresh(self, grant: Grant) -> None:
        grant.refresh_token = self._make("refresh")
        self._refresh[grant.refresh_token] = grant

    def _forget_previous(self, grant: Grant) -> None:
        if grant.previous_refresh is not None:
            self._refresh.pop(grant.previous_refresh, None)
            grant.previous_refresh = None

    def _is_over(self, moment: datetime | None) -> bool:
        return moment is not None and self._clock.now() >= moment

    def _make(self, kind: str) -> str:
        self._made += 1
        self.changes += 1
        return token(self._seed, kind, self._made)


def challenge_of(verifier: str) -> str:
    """The PKCE challenge of a verifier, by the method S256."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
