"""Which tick is due after a time without a scheduler."""

from datetime import datetime, timedelta

import pytest

from headgate.model.schedule import CatchUp
from headgate.policy.catch_up import CATCH_UP_MAX, COUNT_MAX, MISSED_AFTER, DueTick, due_tick
from tests.unit.policy.candidates import DAY, TICK, nightly

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_tick_fires_if_a_scheduler_is_there(catch_up: CatchUp) -> None:
    for late in (timedelta(0), MISSED_AFTER):
        assert due_tick(nightly(catch_up=catch_up), TICK, TICK + late) == DueTick(
            tick=TICK, missed=0, next_tick_at=TICK + DAY
        )


@pytest.mark.fault(22)
def test_after_26_hours_only_the_last_missed_tick_fires() -> None:
    assert due_tick(nightly(), TICK, TICK + 26 * HOUR) == DueTick(
        tick=TICK + DAY, missed=1, next_tick_at=TICK + 2 * DAY
    )


def test_none_of_the_missed_ticks_fires_where_that_is_wanted() -> None:
    schedule = nightly(catch_up=CatchUp.NONE)

    assert due_tick(schedule, TICK, TICK + 26 * HOUR) == DueTick(
        tick=None, missed=2, next_tick_at=TICK + 2 * DAY
    )
    # One that comes on time fires, whatever was missed before it.
    assert due_tick(schedule, TICK, TICK + DAY).tick == TICK + DAY


def test_all_missed_ticks_fire_one_after_another_where_that_is_wanted() -> None:
    schedule, now = nightly(catch_up=CatchUp.ALL), TICK + 3 * DAY
    planned, fired = TICK, list[datetime | None]()
    while planned <= now:
        due = due_tick(schedule, planned, now)
        fired.append(due.tick)
        planned = due.next_tick_at
    assert fired == [TICK + number * DAY for number in range(4)]


def test_of_very_many_missed_ticks_the_last_ones_fire() -> None:
    schedule, now = nightly(cron="* * * * *", catch_up=CatchUp.ALL), TICK + DAY

    due = due_tick(schedule, TICK, now)
    assert due.tick == now - timedelta(minutes=CATCH_UP_MAX - 1)
    assert due.missed == COUNT_MAX - CATCH_UP_MAX
    assert due_tick(schedule, due.next_tick_at, now).missed == 0
