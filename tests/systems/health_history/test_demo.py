"""`headgate demo` on a real terminal: it fits, it stops cleanly, and it goes on where it was."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headgate_sandbox.demo.folder import open_folder
from tests.terminal import Terminal, terminal

ROOT = Path(__file__).parents[3]
SENTENCE = "Syncing is temporarily paused because the Fitbit servers are busy."
DAYS = 12
_DAYS = re.compile(r"(\d+)/(\d+) days")


def options(folder: Path, days: int) -> list[str]:
    """Those of a short demonstration."""
    return ["--days", str(days), "--folder", str(folder), "--no-stay", "--port", "0"]


def command(folder: Path, days: int = DAYS) -> list[str]:
    """A short demonstration."""
    return [sys.executable, "-m", "headgate", "demo", *options(folder, days)]


def environment(**more: str) -> dict[str, str]:
    ours = {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}
    return {**ours, **more}


def days_done(text: str) -> int:
    """The last number of days that is shown."""
    found = _DAYS.findall(text)
    return int(found[-1][0]) if found else 0


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_bar_numbers_and_sentence_fit(tmp_path: Path, columns: int) -> None:
    with terminal(
        *command(tmp_path), columns=columns, environment=environment(NO_COLOR="1"), folder=ROOT
    ) as shown:
        shown.wait_for(lambda text: SENTENCE in text.replace("\n", " "))
        paused = shown.display.text
        code = shown.end()

    assert code == 0
    [bar] = [row for row in paused.split("\n") if "█" in row or "░" in row]
    assert re.fullmatch(rf"[█░]+  \d+/{DAYS} days · [\d.]+ %", bar) and len(bar) <= 60
    rows = paused.split("\n")
    sentence = rows[rows.index(bar) + 1 :]
    # Two rows for the sentence and the finish: nothing is cut off, and no word is broken.
    assert 1 <= len(sentence) <= 4 and all(len(row) <= 60 for row in sentence)
    assert re.search(r"We will automatically resume [^…]*", " ".join(sentence))
    # The text above is broken between words, too; only the link may be longer than a row.
    above = " ".join(rows[: rows.index(bar)])
    assert "We import her history into Strava now, the newest day first." in above
    # At the end only the result is there, and the cursor.
    assert not shown.display.cursor_hidden
    assert shown.display.text.count("By the providers' own count:") == 1
    assert shown.display.text.count("days ·") == 1


@pytest.mark.slow
@pytest.mark.parametrize("reflows", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_terminal_that_is_resized_stays_clean_and_so_does_a_stop(
    tmp_path: Path, reflows: bool
) -> None:
    with terminal(
        *command(tmp_path, 900), columns=120, environment=environment(), folder=ROOT
    ) as shown:
        shown.wait_for(lambda text: days_done(text) >= 2)
        for columns in (60, 100):
            shown.resize(columns, reflows=reflows)
            before = len(shown.seen)
            shown.wait_for(lambda _: len(shown.seen) > before + 2)  # noqa: B023
            assert shown.display.text.count("/900 days") == 1
        shown.press_ctrl_c()
        assert shown.end() == 0
    _judge_stop(shown)


def _judge_stop(shown: Terminal) -> None:
    left = shown.display.text
    assert "Error" not in left and "Interrupt" not in left and "Traceback" not in left
    assert "█" not in left and "^C" not in left and not shown.display.cursor_hidden
    assert days_done(left) >= 2 and "Nothing is lost" in left.replace("\n", " ")


@pytest.mark.slow
@pytest.mark.thorough
def test_ctrl_c_leaves_a_clean_screen_and_the_next_demo_goes_on(tmp_path: Path) -> None:
    make = ("make", "--no-print-directory", "-o", f"{sys.prefix}/.ok", "demo")
    run = (*make, f"VENV={sys.prefix}", f"ARGS={' '.join(options(tmp_path, 20))}")
    with terminal(*run, columns=80, environment=environment(), folder=ROOT) as first:
        first.wait_for(lambda text: days_done(text) >= 2)
        first.press_ctrl_c()
        first.end()
    _judge_stop(first)
    stopped = days_done(first.display.text)

    with terminal(*run, columns=80, environment=environment(), folder=ROOT) as second:
        second.wait_for(lambda text: f"after {stopped}/20 days" in text.replace("\n", " "))
        assert second.end() == 0
    assert "20/20 days · 100 %" in second.display.text


@pytest.mark.slow
@pytest.mark.thorough
def test_a_demo_that_was_killed_goes_on_and_delivers_nothing_twice(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    run = subprocess.run(
        command(whole), env=environment(), cwd=ROOT, capture_output=True, text=True
    )
    killed = tmp_path / "killed"
    with terminal(*command(killed), columns=80, environment=environment(), folder=ROOT) as shown:
        shown.wait_for(lambda text: days_done(text) >= 2)
        shown.kill()
        shown.end()
    again = subprocess.run(
        command(killed), env=environment(CI="1"), cwd=ROOT, capture_output=True, text=True
    )

    assert (run.returncode, again.returncode) == (0, 0)
    count = re.compile(r"own count: (\d+) activities at Strava, 0 requests over a limit")
    assert count.findall(run.stdout) == count.findall(again.stdout) != []
    assert "It goes on where it was stopped" in again.stderr
    # A pipe gets whole lines, without a bar and without escapes.
    assert "\x1b" not in again.stderr + again.stdout and "░" not in again.stderr
    # Nothing is kept of one that came to its end.
    assert [each.name for each in killed.iterdir()] == ["demo.lock"]


def test_a_second_demo_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with open_folder(tmp_path):
        second = subprocess.run(
            command(tmp_path), env=environment(), cwd=ROOT, capture_output=True, text=True
        )

    assert second.returncode == 1
    assert "runs already" in second.stderr and "--folder" in second.stderr
