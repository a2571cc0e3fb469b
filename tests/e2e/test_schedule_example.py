"""The example of schedules, by the commands of its page."""

import os
import shlex
from pathlib import Path

import pytest

from headgate import App
from tests import processes, stores
from tests.e2e.processes import headgate

pytestmark = pytest.mark.thorough

PAGE = (processes.ROOT / "docs/how-to/schedules.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """Every `headgate schedule …` of the page, in order."""
    lines = [line for line in PAGE.splitlines() if line.startswith("headgate schedule ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'nightly-notes.db'}"

    async def come() -> None:
        async with App(address) as app:
            for name in ("ada", "bob"):
                await app.users.seen(name)
            await app.users.pause("bob", by="support")

    stores.run_async(come())
    environment = {
        **os.environ,
        "HEADGATE_APP": "examples.nightly_notes:app",
        "PYTHONPATH": str(processes.ROOT),
    }

    told = {" ".join(each): headgate(environment, tmp_path, *each) for each in commands()}

    assert "At 02:00 every day" in told["schedule list"]
    assert "1 job for 2 connections" in told["schedule plan nightly"]
    assert "bob\tbob\tthe user is paused" in told["schedule run nightly --dry-run"]
    assert "1 queued, 1 skipped" in told["schedule run nightly"]
    assert "user_paused" in told["schedule skipped nightly"]
    assert "paused by ada" in told["schedule pause nightly --by ada --reason the provider is down"]
    assert "It runs next at" in told["schedule resume nightly --by ada"]
    # The job that was started above does not count as a success yet.
    assert "requests a day: 2 needed, 12,000 allowed" in told["schedule plan fresh"]
    assert told["schedule history nightly"].splitlines()[0].split("\t")[1:4] == ["1", "1", "1"]
