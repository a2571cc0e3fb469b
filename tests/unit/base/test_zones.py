"""Time zones, and the instants of times on a wall clock."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from headgate.base.errors import InvalidInput
from headgate.base.zones import find_zone, instant_of, instants_of, wall_of

BERLIN = ZoneInfo("Europe/Berlin")


def wall(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - a wall clock's time


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def test_a_zone_is_found_by_its_name() -> None:
    assert find_zone("tz", "Europe/Berlin") is find_zone("tz", "Europe/Berlin")
    assert find_zone("tz", "UTC") is UTC


@pytest.mark.parametrize("wrong", ["", "Mars", "../UTC", "/etc", "America", "x" * 200, "a\0"])
def test_an_unknown_zone_is_refused_with_its_field(wrong: str) -> None:
    with pytest.raises(InvalidInput, match=r"^tz: .*is not a time zone"):
        find_zone("tz", wrong)


def test_a_repeated_time_has_two_and_counts_at_the_first() -> None:
    repeated = wall(2026, 10, 25, 2, 30)

    assert instants_of(repeated, BERLIN) == (utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30))
    assert instant_of(repeated, BERLIN) == utc(2026, 10, 25, 0, 30)
    # And both hours are shown alike; a usual time has one.
    for hour in (0, 1):
        assert wall_of(utc(2026, 10, 25, hour, 30), BERLIN) == repeated
    assert wall_of(utc(2026, 10, 25, 1, 30), BERLIN).fold == 0
    assert instants_of(wall(2026, 1, 5, 12), BERLIN) == (utc(2026, 1, 5, 11),)
    assert instant_of(wall(2026, 1, 5, 12), BERLIN) == utc(2026, 1, 5, 11)


def test_a_skipped_time_has_none_and_counts_when_the_clock_is_set() -> None:
    for minute in (0, 1, 30, 59):
        skipped = wall(2026, 3, 29, 2, minute)
        assert instants_of(skipped, BERLIN) == ()
        assert instant_of(skipped, BERLIN) == utc(2026, 3, 29, 1)


def test_half_an_hour_may_be_skipped_and_a_whole_day_too() -> None:
    lord_howe, apia = ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Pacific/Apia")

    assert instant_of(wall(2026, 10, 4, 2, 10), lord_howe) == utc(2026, 10, 3, 15, 30)
    assert instant_of(wall(2011, 12, 30, 7), apia) == utc(2011, 12, 30, 10)
