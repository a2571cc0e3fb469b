"""Who gets a job at a tick."""

from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.schedule import SkipReason
from headgate.model.states import ConnectionState
from headgate.model.user import Frequency
from headgate.policy.eligible import _month_after, is_due, skip_reason
from headgate.policy.entitlement import paid_history
from tests.unit.policy.candidates import DAY, TICK, candidate, nightly


def reason(**fields: Any) -> SkipReason | None:
    return skip_reason(nightly(), candidate(**fields), TICK, now=TICK)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"state": ConnectionState.NEEDS_REAUTH}, SkipReason.NEEDS_REAUTH),
        ({"state": ConnectionState.PAUSED}, SkipReason.CONNECTION_PAUSED),
        ({"destinations": 0}, SkipReason.NOT_CONNECTED),
        ({"destinations": 2}, SkipReason.SEVERAL_CONNECTIONS),
        (
            {"destinations": 1, "destination_state": ConnectionState.NEEDS_REAUTH},
            SkipReason.NEEDS_REAUTH,
        ),
        (
            {"destinations": 1, "destination_state": ConnectionState.PAUSED},
            SkipReason.CONNECTION_PAUSED,
        ),
        ({"destinations": 1, "destination_state": ConnectionState.ACTIVE}, None),
        ({"paused": True}, SkipReason.USER_PAUSED),
        ({"last_login_at": TICK - 30 * DAY}, None),
        ({"last_login_at": TICK - 31 * DAY}, SkipReason.INACTIVE),
        ({"last_login_at": None}, SkipReason.INACTIVE),
        ({"active_job_id": "job_1"}, SkipReason.JOB_ACTIVE),
        ({"frequency": Frequency.WEEKLY, "last_tick": TICK - 6 * DAY}, SkipReason.NOT_DUE),
        ({"frequency": Frequency.WEEKLY, "last_tick": TICK - 7 * DAY}, None),
        # What the user has to do comes before what passes by itself.
        ({"state": ConnectionState.NEEDS_REAUTH, "paused": True}, SkipReason.NEEDS_REAUTH),
        ({"paused": True, "last_login_at": None}, SkipReason.USER_PAUSED),
    ],
)
def test_a_user_is_skipped_with_the_reason(
    fields: dict[str, Any], expected: SkipReason | None
) -> None:
    assert reason(**fields) is expected


def test_everybody_may_be_wanted_and_whoever_asks_gets_a_job_however_often_users_want_one() -> None:
    anybody = nightly(active_within=None)
    assert skip_reason(anybody, candidate(last_login_at=None), TICK, now=TICK) is None

    weekly = candidate(frequency=Frequency.WEEKLY, last_tick=TICK - DAY)
    assert skip_reason(nightly(), weekly, TICK, now=TICK) is SkipReason.NOT_DUE
    assert skip_reason(nightly(), weekly, TICK, now=TICK, asked=True) is None


def test_the_plan_of_a_user_may_not_include_the_mode() -> None:
    def only_paid(plan: str | None, mode: object) -> str | None:
        return None if plan == "paid" else "no"

    free, paid = candidate(), candidate(plan="paid")
    assert skip_reason(nightly(), free, TICK, now=TICK, entitlement=only_paid) is SkipReason.PLAN
    assert skip_reason(nightly(), paid, TICK, now=TICK, entitlement=only_paid) is None
    assert skip_reason(nightly(), free, TICK, now=TICK, entitlement=paid_history) is None


@pytest.mark.parametrize("frequency", list(Frequency))
def test_a_user_who_never_had_a_job_is_due_and_a_daily_one_at_every_tick(
    frequency: Frequency,
) -> None:
    assert is_due(nightly(), candidate(frequency=frequency), TICK)
    assert is_due(nightly(), candidate(last_tick=TICK - timedelta(minutes=1)), TICK)


def test_a_week_is_seven_days_of_the_schedule_even_if_one_is_an_hour_short() -> None:
    berlin = nightly(tz="Europe/Berlin")
    before = datetime.fromisoformat("2026-03-27T02:00+01:00")
    after = datetime.fromisoformat("2026-04-03T02:00+02:00")
    weekly = candidate(frequency=Frequency.WEEKLY, last_tick=before)

    assert is_due(berlin, weekly, after)
    assert not is_due(berlin, weekly, after - DAY)


@pytest.mark.parametrize(
    ("last", "due"),
    [("2026-01-05", "2026-02-05"), ("2026-01-31", "2026-02-28"), ("2025-12-31", "2026-01-31")],
)
def test_a_month_is_the_same_day_of_the_next_or_its_last(last: str, due: str) -> None:
    at = datetime.fromisoformat(f"{last}T02:00+00:00")
    monthly = candidate(frequency=Frequency.MONTHLY, last_tick=at)
    when = datetime.fromisoformat(f"{due}T02:00+00:00")

    assert is_due(nightly(), monthly, when)
    assert not is_due(nightly(), monthly, when - DAY)


@given(st.dates(date(1990, 1, 1), date(2100, 1, 1)))
def test_the_month_after_is_never_skipped(day: date) -> None:
    after = _month_after(day)

    assert (after.year * 12 + after.month) - (day.year * 12 + day.month) == 1
    assert 28 <= (after - day).days <= 31
