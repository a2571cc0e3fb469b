"""How far a command is: a bar on a terminal, a line now and then in a pipe."""

from io import StringIO

import pytest
from rich.console import Console

from headgate.base.clock import ManualClock
from headgate.toolkit.commands import sending_screen
from headgate.toolkit.commands.screen import LINE_EVERY_S
from headgate.toolkit.commands.sending_screen import SendingScreen
from tests.stores import START


def test_in_a_pipe_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock(START)
    with SendingScreen(clock, {"local": 10, "staging": None}) as screen:
        screen.show("local", 1, {"sent": 1})
        clock.advance(LINE_EVERY_S)
        screen.show("local", 4, {"sent": 3, "failed": 1})
        screen.show("local", 5, {"sent": 4, "failed": 1})
        screen.show("staging", 7)
        clock.advance(LINE_EVERY_S)
        screen.show("local", 12)
    with SendingScreen(clock, {"purging": None}, quiet=True) as quiet:
        clock.advance(LINE_EVERY_S)
        quiet.show("purging", 1)

    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        "local: 4 of 10 · sent 3 · failed 1",
        "staging: 7",
        "local: 12 of 12",
    ]
    assert printed.out == ""


def test_on_a_terminal_progress_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    terminal = Console(file=shown, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    monkeypatch.setattr(sending_screen, "messages", terminal)
    monkeypatch.setattr(sending_screen, "is_animated", lambda: True)
    with SendingScreen(ManualClock(START), {"local": 10, "staging": None}) as screen:
        screen.show("local", 4, {"sent": 3, "failed": 1})

    told = shown.getvalue()
    assert "4/10" in told and "sent 3 · failed 1" in told and "━" in told
