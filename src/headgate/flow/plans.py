"""Users' plans: what they pay for. What a plan includes is said by `policy/entitlement.py`."""

from headgate.base.errors import InvalidInput
from headgate.flow.runtime import Runtime
from headgate.flow.submit import check_name

PLAN_LENGTH_MAX = 50


async def set_plan(rt: Runtime, user_id: str, plan: str) -> None:
    """Note which plan a user has."""
    check_name("user_id", user_id)
    if not 1 <= len(plan) <= PLAN_LENGTH_MAX or not plan.isprintable():
        raise InvalidInput("plan", f"must be 1 to {PLAN_LENGTH_MAX} printable characters")
    await rt.store.set_plan(user_id, plan)
