"""Authentication: who calls the API, and which users' data the caller may touch.

Whatever is wrong with an API key, the response is the same, so that it reveals nothing. Ownership
is not checked here: every query to the store names the user.
"""

import msgspec
from fastapi import Request

from headgate.base.errors import InvalidInput
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.secret import Secret
from headgate.flow.users.api_keys import ApiKeys
from headgate.model.api_key import ApiKey, Role
from headgate.toolkit.api.limits import Limits
from headgate.toolkit.api.problems import ProblemError

#: The header for callers that cannot send `Authorization`.
KEY_HEADER = "x-api-key"
_SCHEME = "bearer "
#: Longer than any header that holds one of our API keys.
_HEADER_LENGTH_MAX = 200

_log = get_logger(__name__)


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request, known by an API key."""

    key: ApiKey

    @property
    def name(self) -> str:
        """Who it is, for people and for whoever looks up the API key."""
        return f"{self.key.name} ({self.key.id})"

    @property
    def owner(self) -> str | None:
        """The user whose data the caller may touch; None: every user's."""
        return self.key.user_id

    @property
    def is_admin(self) -> bool:
        """Whether the caller may act for every user."""
        return self.key.role is Role.ADMIN

    def require_user(self, named: str | None, *, field: str = "user_id") -> str:
        """Return the user to act for: the caller's own, or the one that an admin names."""
        user_id = self.visible_user(named)
        if user_id is None:
            raise InvalidInput(field, "an admin's API key has no user of its own: name the user")
        return user_id

    def visible_user(self, named: str | None) -> str | None:
        """Return the user whose data to show; None, for an admin who names nobody: all users."""
        if self.owner is None:
            return named
        if named is not None and named != self.owner:
            # The response is the same whether or not that user exists.
            raise self.deny("this key acts for its own user only")
        return self.owner

    def deny(self, why: str) -> ProblemError:
        """Log the refusal, and return it to be raised."""
        _log.warning(LogEvent.ACCESS_DENIED, key=self.key.id, role=self.key.role.value, why=why)
        return ProblemError("forbidden", why)


async def authenticate(request: Request, keys: ApiKeys, failures: Limits) -> Caller:
    """Return the caller; whoever has no valid API key gets the same refusal.

    `failures` limits those without one, by their address. A valid key is not refused because of
    them: many callers may share an address.
    """
    key = await keys.verify(presented_key(request))
    if key is None:
        client = request.client.host if request.client is not None else ""
        # Before the log: whoever guesses keys must not fill it.
        failures.spend(client)
        _log.warning(LogEvent.AUTHENTICATION_FAILED, client=client, method=request.method)
        raise ProblemError(
            "unauthorized",
            "the API key is missing or not valid",
            headers={"WWW-Authenticate": 'Bearer realm="headgate"'},
        )
    return Caller(key)


def presented_key(request: Request) -> Secret:
    """Return the API key of a request: of `Authorization`, of `x-api-key`, or of both if equal.

    It is empty, which is no key, where a header is repeated or too long, or where the two differ.
    """
    found = [
        read(values[0]) if len(values) == 1 and len(values[0]) <= _HEADER_LENGTH_MAX else Secret("")
        for name, read in _HEADERS.items()
        if (values := request.headers.getlist(name))
    ]
    return found[0] if found and all(each == found[0] for each in found) else Secret("")


def _bearer_key(value: str) -> Secret:
    scheme, key = value[: len(_SCHEME)], value[len(_SCHEME) :]
    return Secret(key.strip(" ") if scheme.lower() == _SCHEME else "")


def _plain_key(value: str) -> Secret:
    return Secret(value.strip(" "))


#: The headers that may hold an API key, each with how to read it.
_HEADERS = {"authorization": _bearer_key, KEY_HEADER: _plain_key}
