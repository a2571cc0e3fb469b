"""What a plan includes."""

import pytest

from headgate.model.job import Mode
from headgate.policy.entitlement import paid_history

LIVE = [mode for mode in Mode if mode is not Mode.HISTORY]


@pytest.mark.parametrize("plan", [None, "", " ", "free", " Free\t", "FREE"])
def test_history_is_not_for_those_who_do_not_pay(plan: str | None) -> None:
    refusal = paid_history(plan, Mode.HISTORY)

    assert refusal is not None and "paid plans" in refusal


@pytest.mark.parametrize("plan", ["pro", "free trial", "0"])
def test_every_other_plan_includes_history(plan: str) -> None:
    assert paid_history(plan, Mode.HISTORY) is None


@pytest.mark.parametrize("mode", LIVE)
@pytest.mark.parametrize("plan", [None, "free", "pro"])
def test_new_data_is_for_everybody(plan: str | None, mode: Mode) -> None:
    assert paid_history(plan, mode) is None
