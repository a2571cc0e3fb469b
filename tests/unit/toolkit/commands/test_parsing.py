"""Values as people type them: read, or refused with an example; ids from stdin."""

import io
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
import typer

from headgate import InvalidInput
from headgate.base.clock import SystemClock
from headgate.toolkit.commands.parsing import parse_day, parse_json_object, parse_time, read_ids


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2024-01-31T12:00:00Z", datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("2024-01-31T12:00+01:00", datetime(2024, 1, 31, 12, tzinfo=timezone(timedelta(hours=1)))),
        # Without a zone it is in UTC, and a day begins at midnight.
        ("2024-01-31T12:00", datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
    ],
)
def test_a_time_is_a_time_or_a_day(text: str, meant: datetime) -> None:
    assert parse_time(text) == meant


@pytest.mark.parametrize(("text", "ago"), [("24h", timedelta(days=1)), ("7d", timedelta(days=7))])
def test_a_time_may_be_told_by_how_long_ago_it_was(text: str, ago: timedelta) -> None:
    before = SystemClock().now() - ago
    assert before <= parse_time(text) <= SystemClock().now() - ago


def test_days_and_objects_are_read() -> None:
    assert parse_day("2024-01-31") == date(2024, 1, 31)
    assert parse_json_object("options", '{"clear": true}') == {"clear": True}


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (parse_day, "yesterday", "'yesterday' is not a day, such as 2024-01-31"),
        (parse_day, "2024-02-30", "is not a day"),
        (parse_time, "noon", "'noon' is not a time"),
        (parse_time, "99999d", "is not a time"),
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(read: Any, text: str, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        read(text)


@pytest.mark.parametrize(("text", "said"), [("{", "is not JSON"), ("[1]", "must be a JSON object")])
def test_what_is_no_object_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_json_object("options", text)
    assert refused.value.field == "options" and said in refused.value.problem


def test_ids_come_from_stdin_where_a_dash_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    # The output of a list has the id in its first column.
    monkeypatch.setattr("sys.stdin", io.StringIO("job_1\tpending\tsteps\n\njob_2\n"))
    assert read_ids(["job_0", "-"]) == ["job_0", "job_1", "job_2"]

    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(InvalidInput, match="stdin contained no job's id"):
        read_ids(["-"])
