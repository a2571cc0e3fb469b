"""Values as people type them: read, or refused by the option's name with an example."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from headgate import InvalidInput
from headgate.toolkit.commands.reading import parse_day, parse_json_object, parse_time


def test_what_is_typed_well_is_read() -> None:
    assert parse_day("--from", "2024-01-31") == date(2024, 1, 31)
    assert parse_time("--since", "2024-01-31T12:00:00Z") == datetime(2024, 1, 31, 12, tzinfo=UTC)
    assert parse_json_object("--options", '{"clear": true}') == {"clear": True}


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (parse_day, "yesterday", "'yesterday' is not a day, such as 2024-01-31"),
        (parse_day, "2024-02-30", "is not a day"),
        (parse_time, "noon", "'noon' is not a time"),
        (parse_json_object, "{", "is not JSON"),
        (parse_json_object, "[1]", "must be a JSON object"),
    ],
)
def test_what_is_not_is_refused_by_the_options_name(read: Any, text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read("--option", text)
    assert refused.value.field == "--option" and said in refused.value.problem
