"""The throttle of hints: a few are sent at once after a rest, then one in an interval."""

import pytest

from headgate.signals.throttle import SEND_EVERY_S, SENDS_AT_ONCE, HintThrottle


def test_after_a_rest_a_few_are_sent_at_once_and_no_more() -> None:
    # Given a throttle that is new, and one with many sends and a long rest
    new, rested = HintThrottle(), HintThrottle()
    for _ in range(50):
        rested.count(100.0)
    assert rested.wait_s(100.0) > SENDS_AT_ONCE * SEND_EVERY_S

    # When the next are sent an hour later
    for throttle in (new, rested):
        for _ in range(SENDS_AT_ONCE):
            assert throttle.wait_s(3_700.0) == 0
            throttle.count(3_700.0)

        # Then the rest has saved up no more than those
        assert throttle.wait_s(3_700.0) == pytest.approx(SEND_EVERY_S)


def test_a_thousand_hints_in_a_tenth_of_a_second_are_sent_at_even_intervals() -> None:
    # Given somebody who would send ten thousand hints a second, for a tenth of a second
    throttle, sent = HintThrottle(), 0

    # When each is sent only if it may be
    for number in range(1_000):
        now_s = 100.0 + number / 10_000
        if throttle.wait_s(now_s) == 0:
            throttle.count(now_s)
            sent += 1

    # Then those of the beginning were sent, and one in every interval
    assert sent == pytest.approx(SENDS_AT_ONCE + 0.1 / SEND_EVERY_S, abs=1)
