"""The events that are logged: members of an enum, all of them used and documented."""

import re

from headgate.base.log_events import LogEvent
from tests.log_calls import PACKAGE, documented, log_calls, logged_as


def test_no_event_is_a_bare_text() -> None:
    calls = list(log_calls(PACKAGE))

    assert calls
    assert [call for call in calls if not re.fullmatch(r"\w*LogEvent\.[A-Z_]+", call.event)] == []


def test_every_event_is_in_snake_case_and_named_as_its_member() -> None:
    assert [event.value for event in LogEvent] == [event.name.lower() for event in LogEvent]


def test_every_event_is_logged_somewhere() -> None:
    assert set(logged_as(PACKAGE, LogEvent)) == set(LogEvent)


def test_every_event_is_documented_with_its_levels_and_fields() -> None:
    assert documented("docs/reference/log-events.md") == logged_as(PACKAGE, LogEvent)
