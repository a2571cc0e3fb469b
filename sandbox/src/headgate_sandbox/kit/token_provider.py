"""`TokenProvider` is the base class of sandboxes whose users grant access by OAuth2.

It issues tokens to tests directly, and issues the same ones again after a reset.
"""

from abc import abstractmethod
from collections.abc import Sequence

import msgspec
from starlette.requests import Request

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.journal import Journal, Line
from headgate_sandbox.kit.oauth import bearer
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.kit.request_log import Seen
from headgate_sandbox.kit.tokens import Grant, Tokens
from headgate_sandbox.kit.windows import Window


class TokenProvider(Provider):
    """The common part of every sandbox with access tokens; a subclass sets `tokens`."""

    tokens: Tokens
    #: The only client that the sandbox knows.
    client_id: str
    #: The field that an error names if a user does not exist.
    user_field = "user"

    def __init__(self, clock: Clock, *, seed: int, windows: Sequence[Window]) -> None:
        """Begin without tokens."""
        super().__init__(clock, seed=seed, windows=windows)
        #: The users and scopes that `issue` was called with, to repeat after a reset.
        self._ready: list[tuple[str | None, tuple[str, ...]]] = []

    @abstractmethod
    def find_user(self, name: str | None) -> str | None:
        """The user of that name, or the first user if `name` is None; None if there is none."""

    def token_of(self, request: Request) -> str:
        """The access token that a request carries, or an empty text."""
        return bearer(request)

    def user_of(self, request: Request) -> str | None:
        """The user who sent the request, even if the token has expired."""
        grant = self.tokens.owner(self.token_of(request))
        return grant.user if grant else None

    def expire_token(self, request: Request) -> None:
        """Let the request's access token expire."""
        self.tokens.expire(self.token_of(request))

    def issue(self, name: str | None, scopes: tuple[str, ...]) -> Grant:
        """Issue tokens for that user, or for the first one, without the approval page."""
        user = self.find_user(name)
        if user is None:
            raise InvalidInput(self.user_field, f"there is no {name}")
        self._ready.append((name, scopes))
        return self.tokens.issue(user, self.client_id, scopes)

    def issue_again(self) -> None:
        """Issue the same tokens in the same order after a reset, for users who still exist."""
        ready, self._ready = self._ready, []
        for name, scopes in ready:
            if self.find_user(name) is not None:
                self.issue(name, scopes)

    def _line(self, journal: Journal, seen: Seen) -> Line:
        line = super()._line(journal, seen)
        if self.tokens.changes == journal.token_changes:
            return line
        journal.token_changes = self.tokens.changes
        return msgspec.structs.replace(line, tokens=self.tokens.state())

    def _restore(self, journal: Journal, line: Line) -> None:
        super()._restore(journal, line)
        if line.tokens is not None:
            self.tokens.restore(line.tokens)
