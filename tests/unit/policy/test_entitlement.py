"""What a plan includes."""

from itertools import product

import pytest

from headgate.model.job import Mode
from headgate.policy.entitlement import paid_history

LIVE = [mode for mode in Mode if mode is not Mode.HISTORY]


@pytest.mark.parametrize("plan", [None, "", " ", "free", " Free\t", "FREE"])
def test_history_is_not_for_those_who_do_not_pay(plan: str | None) -> None:
    refusal = paid_history(plan, Mode.HISTORY)

    assert refusal is not None and "paid plans" in refusal


@pytest.mark.parametrize(
    ("plan", "mode"),
    [
        *((plan, Mode.HISTORY) for plan in ("pro", "free trial", "0")),
        # New data is for everybody.
        *product((None, "free", "pro"), LIVE),
    ],
)
def test_every_other_plan_includes_history_and_every_plan_new_data(
    plan: str | None, mode: Mode
) -> None:
    assert paid_history(plan, mode) is None
