"""The events that are logged: members of an enum, all of them used and documented."""

import re

from headgate.base.log_events import LogEvent
from tests.log_calls import PACKAGE, documented, log_calls, logged_as


def test_no_event_is_a_bare_text() -> None:
    calls = list(log_calls(PACKAGE))

    assert calls
    assert [call for call in calls if not re.fullmatch(r"\w*LogEvent\.[A-Z_]+", call.event)] == []
    # Each is in snake case, and named as its member.
    assert [event.value for event in LogEvent] == [event.name.lower() for event in LogEvent]


def test_every_event_is_logged_somewhere_and_documented_with_its_levels_and_fields() -> None:
    logged = logged_as(PACKAGE, LogEvent)

    assert set(logged) == set(LogEvent)
    assert documented("docs/reference/log-events.md") == logged
