"""How far a command is: a bar on a terminal, a line now and then in a pipe."""

import re
from io import StringIO

import pytest
from rich.console import Console

from headgate.base.clock import ManualClock
from headgate.toolkit.commands.outbox import screen as sending_screen
from headgate.toolkit.commands.outbox.screen import SendingScreen
from headgate.toolkit.commands.screen import LINE_EVERY_S
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


@pytest.mark.parametrize("width", [80, 100])
def test_the_numbers_of_millions_are_not_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = StringIO()
    terminal = Console(file=shown, force_terminal=True, width=width, _environ={"TERM": "xterm"})
    monkeypatch.setattr(sending_screen, "messages", terminal)
    monkeypatch.setattr(sending_screen, "is_animated", lambda: True)
    with SendingScreen(ManualClock(START), {"submitted": 1_000_000}) as screen:
        screen.show("submitted", 999_000, {"created": 856_000, "existing": 143_000})
    with SendingScreen(ManualClock(START), {"checked": None}) as screen:
        screen.show("checked", 999_000)

    told = shown.getvalue()
    assert "999,000/1,000,000" in told and "created 856,000 · existing 143,000" in told
    assert "checked" in told and "?" not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told)
