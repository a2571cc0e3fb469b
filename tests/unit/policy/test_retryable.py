"""Where "retry now" is offered."""

from itertools import product

import pytest

from headgate.base.errors import Malformed, Terminal, Transient
from headgate.model.job import Reason
from headgate.model.states import JobState
from headgate.policy.retryable import HOPELESS, is_retryable

SPENT = (Reason.ATTEMPTS_SPENT, Reason.CRASHES_SPENT)


def test_only_what_is_paused_or_has_spent_its_tries_is_retryable() -> None:
    for state, reason in product(JobState, Reason):
        expected = state is JobState.PAUSED or (state is JobState.FAILED and reason in SPENT)
        assert is_retryable(state, reason, "Transient") is expected, (state, reason)


@pytest.mark.parametrize(
    "kind",
    [
        *("Terminal", "Forbidden", "AddressRefused", "AuthExpired", "GrantRefused"),
        *("InvalidInput", "UnknownSync", "PlanRequired", "NotFound", "NotConnected"),
    ],
)
def test_tries_that_were_spent_on_what_lasts_are_not_worth_another(kind: str) -> None:
    assert kind in HOPELESS
    assert not is_retryable(JobState.FAILED, Reason.ATTEMPTS_SPENT, kind)


@pytest.mark.parametrize("kind", [None, "KeyError", Malformed.__name__, Transient.__name__])
def test_any_other_error_may_pass(kind: str | None) -> None:
    assert is_retryable(JobState.FAILED, Reason.ATTEMPTS_SPENT, kind)


def test_everything_that_is_terminal_is_hopeless() -> None:
    assert {each.__name__ for each in Terminal.__subclasses__()} <= HOPELESS
