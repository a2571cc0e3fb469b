"""What the demonstration says about itself."""

import sys
from pathlib import Path

import pytest

from headgate.systems.health_history.demo_text import duration_text, next_steps


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


def test_the_next_steps_can_be_typed_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a program that only `make` knew where to find
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [".venv/bin/headgate", "demo"])
    assert next_steps()[0].startswith("next: .venv/bin/headgate demo --days 30 ")

    # And one on the path
    (tmp_path / "headgate").touch(mode=0o755)
    assert next_steps()[0].startswith("next: headgate demo --days 30 ")
