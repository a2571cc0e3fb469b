"""The users of an application, and their plans."""

from headgate.base.errors import InvalidInput
from headgate.flow.runtime import Runtime
from headgate.flow.submit import check_name

PLAN_LENGTH_MAX = 50


class Users:
    """The users of an application."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application."""
        self._rt = rt

    async def plan_of(self, user_id: str) -> str | None:
        """The user's plan; None if none was set."""
        return await self._rt.store.plan_of(user_id)

    async def set_plan(self, user_id: str, plan: str) -> None:
        """Set the user's plan."""
        check_name("user_id", user_id)
        if not 1 <= len(plan) <= PLAN_LENGTH_MAX or not plan.isprintable():
            raise InvalidInput("plan", f"must be 1 to {PLAN_LENGTH_MAX} printable characters")
        await self._rt.store.set_plan(user_id, plan)
