"""What the demonstration says about itself."""

import pytest

from headgate.systems.health_history.demo_text import duration_text


@pytest.mark.parametrize(
    ("days", "speed", "about"),
    [
        (730, 240.0, "about a minute"),
        (10, 240.0, "about a minute"),
        (3650, 240.0, "about 5 minutes"),
        # In real time the providers' limits are what takes long, and so does the outage.
        (730, 1.0, "about 103 minutes"),
    ],
)
def test_the_time_to_wait_depends_on_the_days_and_the_speed(
    days: int, speed: float, about: str
) -> None:
    assert about in duration_text(days, speed)
