"""Draining by a command: all targets at the same time, each with a bar of its own."""

import re
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from headgate import App, DrainScope
from headgate.model.delivery import Acceptance, SendFailure
from headgate.toolkit.commands.outbox import screen as sending_screen
from headgate.toolkit.commands.outbox.draining import drain_targets
from tests.outboxes import TOPIC, MeetingSender, ScriptedSender, target

TARGETS = [target("alpha"), target("beta"), target("gamma")]


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    """An application with a message to each of three targets."""
    opened = App(f"sqlite:///{tmp_path}/outbox.db", topics=[TOPIC], targets=TARGETS)
    async with opened:
        await opened.outbox.submit("orders", {}, targets=[each.name for each in TARGETS])
        yield opened


async def test_no_target_waits_for_another(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    app.outbox.drainer.sender = MeetingSender(len(TARGETS))

    code = await drain_targets(app, TARGETS, DrainScope())

    assert capsys.readouterr().out.splitlines() == [
        f"{each.name}: processed 1 · sent 1 · failed 0 · dead 0" for each in TARGETS
    ]
    assert code == 0


async def test_each_target_has_a_bar(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    terminal = Console(file=shown, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    monkeypatch.setattr(sending_screen, "messages", terminal)
    monkeypatch.setattr(sending_screen, "is_animated", lambda: True)
    app.outbox.drainer.sender = sender = ScriptedSender(app.clock)
    sender.answers = {"alpha": Acceptance(), "beta": SendFailure("it answered 500")}

    code = await drain_targets(app, TARGETS, DrainScope())

    assert code == 1
    told = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    for name, counts in (
        ("alpha", "sent 1 · failed 0 · dead 0"),
        ("beta", "sent 0 · failed 1 · dead 0"),
        ("gamma", "sent 1 · failed 0 · dead 0"),
    ):
        assert re.search(rf"{name} +━+ 1/1 {counts}", told), told
