"""How the command line speaks: data on stdout, a line a thing where it is piped."""

import io
import json
import re
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from headgate import Progress
from headgate.flow.jobs.view import JobView, view_of
from headgate.model.job import Summary
from headgate.model.states import JobState
from headgate.toolkit.commands import output
from headgate.toolkit.commands.output import (
    counts_text,
    job_facts,
    percent_text,
    print_facts,
    print_json,
    print_list,
    print_table,
    state_text,
)
from tests.unit.values import NOW, make_job


def view(**fields: Any) -> JobView:
    return view_of(make_job(**fields), now=NOW)


def test_json_is_one_document_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"at": NOW, "word": "Tür"})

    said = capsys.readouterr()
    assert json.loads(said.out)["word"] == "Tür" and said.out.count("\n") == 1
    assert said.err == ""


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_has_a_mark_beside_its_word(state: JobState) -> None:
    text = state_text(view(state=state)).plain

    mark, _, word = text.partition(" ")
    assert word == state.value and len(mark) == 1


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        (Progress(done=1, total=4), "25 %"),
        (Progress(done=1234), "1,234 done"),
        (Progress(), ""),
    ],
)
def test_how_far_along_is_told_in_words(progress: Progress, told: str) -> None:
    assert percent_text(view(progress=progress)) == told


def test_counts_have_their_names() -> None:
    assert counts_text({"found": 1200, "gone": 1}) == "found 1,200 · gone 1"
    assert counts_text({}) == ""


def test_piped_jobs_are_a_line_each_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [replace(view(id="job_1"), message="x" * 300), view(id="job_2")]

    print_list(jobs, limit=20, json=False, none="no jobs")

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["job_1", "job_2"]
    assert lines[0].endswith("x" * 300)


@pytest.mark.parametrize(("limit", "more"), [(1, "job_1"), (2, None)])
def test_a_list_for_programs_says_where_it_goes_on(
    limit: int, more: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [view(id="job_1"), view(id="job_2")]
    print_list(found, limit=limit, json=True, none="no jobs")

    told = json.loads(capsys.readouterr().out)
    ids = [each["id"] for each in told["data"]]
    assert (ids, told["next_cursor"]) == (["job_1", "job_2"][:limit], more)


def test_facts_are_told_with_what_is_known_and_no_empty_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_facts(job_facts(view(summary=Summary(records=7))))

    said = capsys.readouterr().out
    assert "found 7" in said
    assert "last error" not in said and "raised at" not in said


def test_operators_are_told_the_last_error_its_cause_and_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = "Malformed: no JSON\ncaused by ValueError: char 0\nraised at my_syncs/watch.py:7"
    shown = view(error=error, attempts=2)

    print_facts(job_facts(shown))

    said = capsys.readouterr().out
    for fact in ("Malformed: no JSON", "ValueError: char 0", "my_syncs/watch.py:7", "attempts 2"):
        assert fact in said
    print_facts(job_facts(shown.for_user()))
    assert "Malformed" not in capsys.readouterr().out


@pytest.mark.parametrize(("width", "is_table"), [(60, False), (80, True)])
def test_a_table_that_does_not_fit_is_told_row_by_row(
    monkeypatch: pytest.MonkeyPatch, width: int, is_table: bool
) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=width, no_color=True)
    monkeypatch.setattr(output, "out", terminal)
    row = ("job_01M7MVZVV9B7RTWRAF04ZMBQKD", "steps", "somebody", "Waiting for a worker, " * 3)

    print_table(("job", "sync", "user", "message"), [row, row])

    told = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())
    assert told.count(row[0]) == 2 and told.count("Waiting") == 6
    assert all(len(line) <= width for line in told.splitlines())
    assert (told.count("message") == 1) is is_table
