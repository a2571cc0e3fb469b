"""How the command line speaks: data on stdout, a line a thing where it is piped."""

import json

import pytest

from headgate import Progress
from headgate.model.job import Summary
from headgate.model.states import JobState
from headgate.toolkit.commands.output import (
    counts_text,
    job_json,
    percent_text,
    print_job,
    print_jobs,
    print_json,
    state_text,
)
from tests.unit.values import NOW, make_job


def test_json_is_one_document_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"at": NOW, "word": "Tür"})

    said = capsys.readouterr()
    assert json.loads(said.out)["word"] == "Tür" and said.out.count("\n") == 1
    assert said.err == ""


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_has_a_mark_beside_its_word(state: JobState) -> None:
    text = state_text(make_job(state=state)).plain

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
    assert percent_text(make_job(progress=progress)) == told


def test_counts_have_their_names() -> None:
    assert counts_text({"found": 1200, "gone": 1}) == "found 1,200 · gone 1"
    assert counts_text({}) == ""


def test_a_job_for_programs_has_its_percent_and_its_sentence() -> None:
    told = job_json(make_job(progress=Progress(done=1, total=2)), "Going on.")

    assert (told["percent"], told["explanation"]) == (50, "Going on.")


def test_piped_jobs_are_a_line_each_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [make_job(id="job_1"), make_job(id="job_2")]

    print_jobs(jobs, ["x" * 300, "Done."])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["job_1", "job_2"]
    assert lines[0].endswith("x" * 300)


def test_one_job_is_told_with_what_is_known_and_no_empty_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_job(make_job(summary=Summary(records=7), error=None), "Going on.")

    said = capsys.readouterr().out
    assert "Going on." in said and "records 7" in said
    assert "last error" not in said
