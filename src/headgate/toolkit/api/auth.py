"""Who calls: bearer keys, and what each may do.

Whatever is wrong with a key, the answer is the same, so that it tells nothing. Another user's
things are not checked for here: whose they are is part of the question that the store is asked.
"""

import msgspec
from fastapi import Request

from headgate.base.errors import InvalidInput
from headgate.base.log import get_logger
from headgate.base.secret import Secret
from headgate.flow.api_keys import ApiKeys
from headgate.model.api_key import ApiKey, Role
from headgate.toolkit.api.problems import ProblemError

_SCHEME = "bearer "
#: Longer than any header that holds a key of ours.
_HEADER_LENGTH_MAX = 200

_log = get_logger(__name__)


class Caller(msgspec.Struct, frozen=True):
    """Whoever holds the key."""

    key: ApiKey

    @property
    def owner(self) -> str | None:
        """Whose things it may touch; None: everybody's."""
        return self.key.user_id

    @property
    def is_admin(self) -> bool:
        """Whether it acts for everybody."""
        return self.key.role is Role.ADMIN

    def acting_for(self, named: str | None, *, field: str = "user_id") -> str:
        """The user to act for: its own, or for an admin the one that is named."""
        user_id = self.looking_at(named)
        if user_id is None:
            raise InvalidInput(field, "an admin's key acts for everybody: say for whom")
        return user_id

    def looking_at(self, named: str | None) -> str | None:
        """The user to look at; None, for an admin who names nobody: all of them."""
        if self.owner is None:
            return named
        if named is not None and named != self.owner:
            # The same whether or not there is such a user.
            raise self.denied("this key acts for its own user only")
        return self.owner

    def denied(self, why: str) -> ProblemError:
        """The refusal, logged."""
        _log.warning("access denied", key=self.key.id, role=self.key.role.value, why=why)
        return ProblemError("forbidden", why)


async def authenticate(request: Request, keys: ApiKeys) -> Caller:
    """Whoever sent the request; the same refusal for everybody else."""
    key = await keys.verify(presented(request))
    if key is None:
        client = request.client.host if request.client is not None else None
        _log.warning("authentication failed", client=client, method=request.method)
        raise ProblemError(
            "unauthorized",
            "the API key is missing or not valid",
            headers={"WWW-Authenticate": 'Bearer realm="headgate"'},
        )
    return Caller(key)


def presented(request: Request) -> Secret:
    """What stands in the one Authorization header, and nothing where that is no bearer's."""
    values = request.headers.getlist("authorization")
    if len(values) != 1 or len(values[0]) > _HEADER_LENGTH_MAX:
        return Secret("")
    scheme, given = values[0][: len(_SCHEME)], values[0][len(_SCHEME) :]
    return Secret(given.strip(" ") if scheme.lower() == _SCHEME else "")
