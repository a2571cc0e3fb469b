"""Following a job in the terminal: how far, until when, and how it ended."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import ItemState, JobState, JobStatus, Mode, Progress
from headgate.flow.job_view import status_view, view_of
from headgate.model.forecast import Finish
from headgate.toolkit.commands.output import messages
from headgate.toolkit.commands.watching import Screen, print_status, progress_text
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


@pytest.mark.parametrize(
    ("state", "progress", "told"),
    [
        (JobState.RUNNING, Progress(done=41), (None, 41)),
        (JobState.PENDING, Progress(done=41), (1, 0)),
        (JobState.PAUSED, Progress(), (1, 0)),
        (JobState.PENDING, Progress(done=9, total=40), (40, 9)),
    ],
)
def test_a_bar_moves_only_while_something_is_done(
    monkeypatch: pytest.MonkeyPatch,
    state: JobState,
    progress: Progress,
    told: tuple[float | None, float],
) -> None:
    monkeypatch.setattr(messages, "_force_terminal", True)
    screen = Screen()

    screen.show(status(state=state, progress=progress))

    [task] = screen._bar.tasks
    # A bar without a total moves.
    assert (task.total, task.completed) == told


def test_where_nothing_can_move_a_line_is_printed_for_every_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Screen() as screen:
        for done in (1, 1, 2):
            screen.show(status(progress=Progress(done=done, total=4)))

    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 2


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
