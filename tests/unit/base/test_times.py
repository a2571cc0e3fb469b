"""Times as people read them."""

from datetime import timedelta

from headgate.base.times import format_time
from tests.unit.values import NOW


def test_a_moment_is_told_with_its_zone_and_its_seconds_only_if_there_are_any() -> None:
    assert format_time(NOW) == "2026-03-01 12:00 UTC"
    assert format_time(NOW + timedelta(seconds=5)) == "2026-03-01 12:00:05 UTC"
