"""The pace of hints: a few at once after a rest, and then one at a time."""

import pytest

from headgate.signals.pace import SEND_EVERY_S, SENDS_AT_ONCE, HintPace


def test_a_few_hints_are_sent_at_once() -> None:
    pace = HintPace()

    for _ in range(SENDS_AT_ONCE):
        assert pace.wait_s(100.0) == 0
        pace.count(100.0)

    assert pace.wait_s(100.0) == pytest.approx(SEND_EVERY_S)


def test_a_thousand_hints_in_a_tenth_of_a_second_are_sent_at_even_intervals() -> None:
    # Given somebody who would send ten thousand hints a second, for a tenth of a second
    pace, sent = HintPace(), 0

    # When each is sent only if it may be
    for number in range(1_000):
        now_s = 100.0 + number / 10_000
        if pace.wait_s(now_s) == 0:
            pace.count(now_s)
            sent += 1

    # Then those of the beginning were sent, and one in every interval
    assert sent == pytest.approx(SENDS_AT_ONCE + 0.1 / SEND_EVERY_S, abs=1)


def test_after_a_rest_a_few_are_sent_at_once_again_and_no_more() -> None:
    # Given many sends, and a long rest
    pace = HintPace()
    for _ in range(50):
        pace.count(100.0)
    assert pace.wait_s(100.0) > SENDS_AT_ONCE * SEND_EVERY_S

    # When the next are sent an hour later
    later_s = 3_700.0
    for _ in range(SENDS_AT_ONCE):
        assert pace.wait_s(later_s) == 0
        pace.count(later_s)

    # Then the rest has saved up no more than those
    assert pace.wait_s(later_s) > 0
