"""The events that the system logs: all of them used and documented."""

from headgate.systems.activity_streams.log_events import StreamsLogEvent
from tests.log_calls import PACKAGE, documented, logged_as

SYSTEM = PACKAGE / "systems/activity_streams"


def test_every_event_is_logged_and_documented_with_its_levels_and_fields() -> None:
    logged = logged_as(SYSTEM, StreamsLogEvent)

    assert set(logged) == set(StreamsLogEvent)
    assert documented("docs/how-to/activity-streams.md") == logged
