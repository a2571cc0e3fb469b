"""What people read about schedules."""

from datetime import timedelta

from headgate.flow.schedules.explain import explain_freshness, explain_skip
from headgate.model.schedule import SkipReason

DAY = timedelta(days=1)


def test_every_reason_is_told() -> None:
    assert all(explain_skip(reason) for reason in SkipReason)


def test_a_goal_is_told_as_it_is_reached() -> None:
    assert explain_freshness(DAY, 3, 0, None) == "The data of all 3 users is within 1d."
    assert explain_freshness(DAY, 3, 1, None) == "The data of 1 of 3 users is older than 1d."
    assert explain_freshness(DAY, 3, 1, DAY * 1.51).endswith("they are enough for 1d13h.")
    assert explain_freshness(DAY / 24, 3, 1, DAY / 20).endswith("they are enough for 1h12m.")
