"""Following a job in the terminal: how far, until when, and how it ended."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from headgate import ItemState, JobState, Mode, Progress
from headgate.base.clock import ManualClock
from headgate.flow.jobs.view import Reconnect, status_view, view_of
from headgate.model.forecast import Finish
from headgate.toolkit.commands.screen import LINE_EVERY_S, Screen, progress_text
from headgate.toolkit.commands.watching import print_status
from headgate.types import JobStatus
from tests.unit.values import make_job

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def status(**job: Any) -> JobStatus:
    return status_view(view_of(make_job(**job), now=NOON), now=NOON)


@pytest.mark.parametrize(
    ("mode", "progress", "told"),
    [
        (Mode.HISTORY, Progress(done=5, total=10), "5/10 days · 50 %"),
        (Mode.HISTORY, Progress(done=1200), "1,200 days"),
        # Elsewhere the source counts, in whatever it counts.
        (Mode.FULL, Progress(done=44, total=88), "44/88 · 50 %"),
        (
            Mode.FULL,
            Progress(done=9, total=40, items={ItemState.SUCCESS: 9, ItemState.PENDING: 31}),
            "9/40 items · 22.5 %",
        ),
    ],
)
def test_how_far_along(mode: Mode, progress: Progress, told: str) -> None:
    assert progress_text(status(mode=mode, progress=progress)) == told


def test_where_nothing_can_move_a_line_tells_what_happened_and_now_and_then_how_far(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = ManualClock(NOON)
    running = {"state": JobState.RUNNING, "mode": Mode.HISTORY}
    with Screen(clock) as screen:
        for done in (1, 1, 2):
            screen.show(status(progress=Progress(done=done, total=4), **running))
        clock.advance(LINE_EVERY_S)
        screen.show(status(progress=Progress(done=3, total=4), **running))
        screen.show(status(progress=Progress(done=3, total=4), state=JobState.SUCCESS))
        clock.advance(LINE_EVERY_S)
        screen.show(status(progress=Progress(done=3, total=4), state=JobState.SUCCESS))

    said = capsys.readouterr()
    told = [line.partition("  ")[0] for line in said.err.splitlines()]
    assert said.out == "" and told == ["1/4 days · 25 %", "3/4 days · 75 %", "3/4 · 75 %"]


def test_how_long_it_will_still_take_is_told_where_it_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ends = [NOON + timedelta(minutes=each) for each in (40, 55, 70)]
    finish = Finish(earliest=ends[0], likely=ends[1], latest=ends[2])
    line = view_of(make_job(progress=Progress(done=2, total=4)), now=NOON)

    print_status(status_view(line, now=NOON, finish=finish))
    assert "About 40 to 70 minutes left." in capsys.readouterr().out.splitlines()
    print_status(status_view(line, now=NOON))
    assert "left" not in capsys.readouterr().out


def test_a_job_is_told_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_status(status(error="the provider is busy", progress=Progress(done=2, total=4)))

    said = capsys.readouterr().out
    assert "Waiting for a worker." in said and "2/4" in said
    assert re.search(r"^last error +the provider is busy *$", said, re.MULTILINE)


def test_a_job_whose_user_has_to_sign_in_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    lost = Reconnect(provider="fitbit", connection_id="conn_1")

    print_status(msgspec.structs.replace(status(user_id="ada"), reconnect=lost))

    advice = "next: headgate connection link fitbit --user ada --again conn_1\n"
    assert advice in capsys.readouterr().err
