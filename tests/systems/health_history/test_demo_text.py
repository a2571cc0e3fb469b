"""What the demonstration says about itself."""

import os
import sys
from pathlib import Path

import pytest

from headgate_sandbox.demo.text import duration_text, next_steps, sharers


@pytest.mark.parametrize(
    ("days", "speed", "shared_by", "about"),
    [
        (730, 240.0, 1.0, "1 to 4 minutes for it here, longer if"),
        (10, 240.0, 1.0, "about a minute for it here, longer if"),
        (3650, 240.0, 1.0, "5 to 20 minutes for it here, longer if"),
        # On two cores with nine others at work it took five and a half minutes.
        (730, 240.0, 5.0, "about 5 minutes for it here, because the machine is busy"),
        # In real time the providers' limits are what takes long, and so does the outage.
        (730, 1.0, 1.0, "about 103 minutes for it here"),
        (730, 1.0, 5.0, "about 103 minutes for it here"),
    ],
)
def test_the_time_to_wait_depends_on_the_days_the_speed_and_who_shares_the_core(
    days: int, speed: float, shared_by: float, about: str
) -> None:
    assert about in duration_text(days, speed, sharers=shared_by)


@pytest.mark.parametrize(
    ("load", "cores", "expected"), [(0.4, 2, 1.0), (9.0, 2, 5.0), (9.0, 16, 1.0)]
)
def test_a_core_is_shared_with_what_ran_in_the_last_minute(
    load: float, cores: int, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: cores)

    assert sharers() == expected


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
