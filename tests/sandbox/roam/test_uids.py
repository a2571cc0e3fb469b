"""Uids that lead back to their number, and those of daily notes."""

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from headgate_sandbox.roam.uids import daily_title, daily_uid, day_of, number_of, uid_of


@given(st.integers(min_value=0, max_value=62**9 - 1))
def test_a_uid_leads_back_to_its_number(number: int) -> None:
    uid = uid_of(number)

    assert len(uid) == 9
    assert number_of(uid) == number
    assert day_of(uid) is None


def test_a_daily_note_is_named_by_its_day_and_what_is_no_uid_has_no_number() -> None:
    day = date(2026, 1, 5)

    assert (daily_uid(day), daily_title(day)) == ("01-05-2026", "January 5th, 2026")
    assert day_of("01-05-2026") == day
    assert day_of("13-05-2026") is day_of("1-5-2026") is None
    assert number_of("short") is number_of("with-dash") is None
    # The endings of days are English.
    endings = "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 23rd 31st".split()
    for ending in endings:
        day = date(2026, 1, int(ending[:-2]))
        assert daily_title(day) == f"January {ending}, 2026"
