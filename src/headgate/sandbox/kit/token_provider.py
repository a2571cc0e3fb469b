"""A provider whose users let a client in by OAuth2: tokens by hand, and the same after a reset."""

from abc import abstractmethod
from collections.abc import Sequence

from starlette.requests import Request

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate.sandbox.kit.oauth import bearer
from headgate.sandbox.kit.provider import Provider
from headgate.sandbox.kit.tokens import Grant, Tokens
from headgate.sandbox.kit.windows import Window


class TokenProvider(Provider):
    """The common part of every sandbox with access tokens; a subclass sets `tokens`."""

    tokens: Tokens
    #: The one client that it knows.
    client_id: str
    #: What it calls a user, where one is not there.
    user_field = "user"

    def __init__(self, clock: Clock, *, seed: int, windows: Sequence[Window]) -> None:
        """Begin with no tokens given out."""
        super().__init__(clock, seed=seed, windows=windows)
        #: The users that were given tokens by hand, by the name they were asked for.
        self._ready: list[tuple[str | None, tuple[str, ...]]] = []

    @abstractmethod
    def find_user(self, name: str | None) -> str | None:
        """The user of that name, or the first one; None if there is none."""

    def token_of(self, request: Request) -> str:
        """The access token that a request carries, or an empty text."""
        return bearer(request)

    def user_of(self, request: Request) -> str | None:
        """Whose request it is, even by a token that has expired."""
        grant = self.tokens.owner(self.token_of(request))
        return grant.user if grant else None

    def expire_token(self, request: Request) -> None:
        """Let the request's access token expire."""
        self.tokens.expire(self.token_of(request))

    def issue(self, name: str | None, scopes: tuple[str, ...]) -> Grant:
        """Tokens for that user, or for the first one, without going through the pages."""
        user = self.find_user(name)
        if user is None:
            raise InvalidInput(self.user_field, f"there is no {name}")
        self._ready.append((name, scopes))
        return self.tokens.issue(user, self.client_id, scopes)

    def issue_again(self) -> None:
        """After a reset: the same tokens in the same order, for whoever is still there."""
        ready, self._ready = self._ready, []
        for name, scopes in ready:
            if self.find_user(name) is not None:
                self.issue(name, scopes)
