"""The events that the system logs: all of them used and documented."""

from headgate.systems.daily_checkins.log_events import CheckinsLogEvent
from tests.log_calls import PACKAGE, documented, logged_as

SYSTEM = PACKAGE / "systems/daily_checkins"


def test_every_event_is_logged_and_documented_with_its_levels_and_fields() -> None:
    logged = logged_as(SYSTEM, CheckinsLogEvent)

    assert set(logged) == set(CheckinsLogEvent)
    assert documented("docs/how-to/daily-check-ins.md") == logged
