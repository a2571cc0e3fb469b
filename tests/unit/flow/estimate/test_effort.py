"""What one chunk takes: measured by the clock, told apart by provider."""

from datetime import timedelta

from headgate.base.clock import ManualClock
from headgate.flow.estimate.effort import ChunkTimes
from tests.unit.values import NOW


def test_times_at_providers_are_told_apart_from_waits_for_their_budgets() -> None:
    clock = ManualClock(NOW)
    times = ChunkTimes(clock, "strava")
    clock.advance(1)
    with times.at("watch") as watch:
        asked_s = clock.monotonic()
        clock.advance(4)
        watch.grant("read", asked_s=asked_s)
        clock.advance(2)
    with times.at("shelf"):
        clock.advance(3)

    effort = times.effort()

    assert effort.ended_at - effort.began_at == timedelta(seconds=10)
    assert effort.work_s == {"watch": 2.0, "shelf": 3.0}
    assert effort.waited_s == 4.0
    assert effort.requests == {"watch": {"read": 1}}


def test_who_waits_and_asks_again_waits_for_the_budget_from_the_first_refusal() -> None:
    clock = ManualClock(NOW)
    times = ChunkTimes(clock, "strava")
    with times.at("shelf") as shelf:
        for _ in range(3):
            shelf.refuse(asked_s=clock.monotonic())
            clock.advance(20)
        shelf.grant("upload", asked_s=clock.monotonic())
        clock.advance(1)
        shelf.grant("upload", asked_s=clock.monotonic())

    effort = times.effort()

    assert (effort.waited_s, effort.work_s) == (60.0, {"shelf": 1.0})
    assert effort.requests == {"shelf": {"upload": 2}}


def test_requests_that_wait_together_do_not_make_time_negative() -> None:
    clock = ManualClock(NOW)
    times = ChunkTimes(clock, "strava")
    with times.at("watch") as watch:
        asked_s = clock.monotonic()
        clock.advance(5)
        for _ in range(4):
            watch.grant("read", asked_s=asked_s)

    effort = times.effort()

    assert (effort.work_s, effort.waited_s) == ({"watch": 0.0}, 5.0)
    # The same provider at both ends is measured once.
    assert times.at("watch") is watch
