"""Which due jobs get another message, and how many."""

import random
from datetime import timedelta

import pytest

from headgate.policy.hints import needs_hint
from tests.unit.values import NOW, make_job

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("waits_s", "late_s", "needed"),
    [
        # A message was sent ahead, and is given time to arrive.
        (0, 0, False),
        (900, 60, False),
        (900, 299, False),
        # It was lost, or waits in a long queue: another one, and more at growing intervals.
        (0, 300, True),
        (900, 359, True),
        (0, 360, False),
        (0, 600, True),
        (0, 900, False),
        (0, 1200, True),
        # None was sent, because the wait was too long.
        (901, 0, True),
        (901, 59, True),
        (901, 60, False),
        (86_400, 300, True),
    ],
)
def test_a_message_is_sent_where_none_was_and_again_where_it_may_be_lost(
    waits_s: int, late_s: int, needed: bool
) -> None:
    due = NOW + timedelta(seconds=waits_s)
    job = make_job(updated_at=NOW, wake_at=due)
    now = due + timedelta(seconds=late_s)
    assert needs_hint(job, since=now - MINUTE, now=now) is needed


@pytest.mark.parametrize(
    ("waits", "late", "count"),
    [
        # After 5, 10, 20 and 40 minutes.
        (timedelta(0), timedelta(hours=1), 4),
        # The first when its wait ends, if that was too long to send one ahead.
        (timedelta(hours=1), timedelta(hours=1), 5),
        # And after 80, 160, and every 160 minutes from then on.
        (timedelta(0), timedelta(hours=23), 13),
        (timedelta(0), timedelta(hours=47), 22),
    ],
)
def test_of_sweeps_that_are_not_quite_a_minute_apart_one_sends_each_message(
    waits: timedelta, late: timedelta, count: int
) -> None:
    rng = random.Random(1)
    due = NOW + waits
    job = make_job(updated_at=NOW, wake_at=due)
    since, sent = due - MINUTE, 0
    while since < due + late:
        now = since + timedelta(seconds=rng.uniform(20, 100))
        if due <= now <= due + late:
            sent += needs_hint(job, since=since, now=now)
        since = now
    assert sent == count


def test_a_message_that_no_sweep_could_send_is_sent_by_the_next() -> None:
    job = make_job(updated_at=NOW, wake_at=NOW)
    # Nothing has swept for two hours.
    now = NOW + timedelta(hours=3)
    assert needs_hint(job, since=NOW + timedelta(hours=1), now=now)
