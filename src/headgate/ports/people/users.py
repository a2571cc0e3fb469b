"""The store of users: their plans, logins, preferences and pauses."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headgate.model.user import User


class UserStore(Protocol):
    """Users. Every method is one atomic, durable operation, by the store's own time."""

    async def get(self, user_id: str) -> User:
        """The user; NotFound if Headgate does not know them yet."""
        ...

    async def list_users(self, *, limit: int, after: str | None = None) -> Sequence[User]:
        """Users in the order of their ids, those after the id `after`."""
        ...

    async def plan_of(self, user_id: str) -> str | None:
        """The user's plan; None if none was set."""
        ...

    async def plans_of(self, user_ids: Sequence[str]) -> Mapping[str, str]:
        """The plans of these users, by user; who has none is left out. Any number of users."""
        ...

    async def set_plan(self, user_id: str, plan: str) -> User:
        """Store the plan of the user, who need not be known yet."""
        ...

    async def set_preferences(self, user_id: str, changes: Mapping[str, Any]) -> User:
        """Change these fields of the preferences of the user, who need not be known yet."""
        ...

    async def pause(self, user_id: str, *, by: str, reason: str | None = None) -> tuple[User, bool]:
        """Pause the user's schedules; returns the user, and whether this changed anything."""
        ...

    async def resume(self, user_id: str) -> tuple[User, bool]:
        """Resume the user's schedules; returns the user, and whether this changed anything."""
        ...

    async def email_of(self, user_id: str) -> str | None:
        """Where notifications for the user go; None if they have no address, or want none."""
        ...

    async def is_login_due(self, user_id: str) -> bool:
        """Whether a login of the user would be written now."""
        ...

    async def write_login(self, user_id: str) -> bool:
        """Write that the user is here; False if that was written a short time ago.

        The user need not be known yet. Of calls at the same time, one writes.
        """
        ...
