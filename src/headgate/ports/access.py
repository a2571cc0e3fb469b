"""Where API keys are kept, and what was answered to requests that may come again.

Every method is one atomic, durable operation, by the store's own time.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from headgate.model.access import ApiKey, Role


class NewApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key to be stored; of what is secret, only the hash."""

    id: str
    hash: str
    name: str
    user_id: str | None
    role: Role


class KeptKey(msgspec.Struct, frozen=True):
    """A key together with the hash of its secret."""

    key: ApiKey
    hash: str


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Begun(msgspec.Struct, frozen=True):
    """The request is ours to carry out until then; it also names our turn at it."""

    until: datetime


class UnderWay(msgspec.Struct, frozen=True):
    """The first request with this key has not been answered yet."""


class Changed(msgspec.Struct, frozen=True):
    """The key was used before for another request."""


#: What is known of a request when it comes in.
Known = Begun | UnderWay | Changed | Answered


class Access(Protocol):
    """API keys, and requests that are carried out once however often they come."""

    async def add_key(self, new: NewApiKey) -> ApiKey:
        """Store a key."""
        ...

    async def find_key(self, key_id: str) -> KeptKey | None:
        """The key of that id, revoked or not."""
        ...

    async def list_keys(self, *, limit: int, after: str | None = None) -> Sequence[ApiKey]:
        """Keys in the order of their ids, those after the id `after`."""
        ...

    async def revoke_key(self, key_id: str) -> ApiKey:
        """The key is good for nothing from now on; NotFound where there is none."""
        ...

    async def begin(self, owner: str, key: str, request_hash: str, *, lease: timedelta) -> Known:
        """Begin a request, or learn why not. Unanswered after `lease`, it may be begun again."""
        ...

    async def finish(
        self, owner: str, key: str, begun: Begun, answered: Answered, *, keep: timedelta
    ) -> bool:
        """Remember the answer for as long as `keep`; False where the turn was lost."""
        ...

    async def abandon(self, owner: str, key: str, begun: Begun) -> None:
        """Forget the request, so that it can be begun again at once."""
        ...
