"""What the systems of an application keep of users, in their own tables and elsewhere."""

from collections.abc import AsyncIterator
from typing import Protocol

from headgate.base.encoding import JsonObject


class SystemData(Protocol):
    """What all systems of one application keep of users."""

    @property
    def names(self) -> frozenset[str]:
        """The systems that erase what they keep of users."""
        ...

    async def erase(self, user_id: str) -> None:
        """Erase the user; safe to repeat."""
        ...

    def export(self, user_id: str) -> AsyncIterator[JsonObject]:
        """Everything that systems keep of the user, each row with its `type`."""
        ...
