"""Which due jobs get another message."""

from datetime import timedelta

import pytest

from headgate.policy.hints import needs_hint
from tests.unit.values import NOW, make_job


@pytest.mark.parametrize(
    ("waits_s", "late_s", "needed"),
    [
        # A message was sent ahead, and is given time to arrive.
        (0, 0, False),
        (900, 60, False),
        (900, 299, False),
        # It was lost, or waits in a long queue: another one every five minutes.
        (0, 300, True),
        (900, 390, True),
        (0, 391, False),
        (0, 600, True),
        # None was sent, because the wait was too long.
        (901, 0, True),
        (901, 90, True),
        (901, 91, False),
        (86_400, 300, True),
    ],
)
def test_a_message_is_sent_where_none_was_and_again_where_it_may_be_lost(
    waits_s: int, late_s: int, needed: bool
) -> None:
    due = NOW + timedelta(seconds=waits_s)
    job = make_job(updated_at=NOW, wake_at=due)
    assert needs_hint(job, due + timedelta(seconds=late_s)) is needed
