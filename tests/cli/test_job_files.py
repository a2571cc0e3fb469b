"""`headgate job submit --file`: a result for each line, in order, in bounded memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.base.errors import StoreUnavailable
from headgate.cli.jobs import files as job_files
from headgate.flow.jobs.service import Jobs
from headgate.flow.jobs.submit_many import BATCH
from tests import processes
from tests.cli.conftest import Cli
from tests.terminal import terminal


def line(user_id: str, /, **more: Any) -> str:
    return json.dumps({"sync": "sync", "user_id": user_id, **more})


def jobs(headgate: Cli) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = headgate.json("job", "list")["data"]
    return listed


def submit(headgate: Cli, *lines: str, options: tuple[str, ...] = ("--json",)) -> Any:
    return headgate("job", "submit", "--file", "-", *options, stdin="\n".join(lines))


def outcomes(text: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in text.splitlines()]


def test_every_line_is_answered_in_order(headgate: Cli) -> None:
    told = submit(
        headgate,
        line("ada", key="a"),
        "",
        line("bob", mode="limit", limit=3, lane="cold", options={"deep": [1]}, delay_s=60),
        line("bob"),
        line("ada", key="a"),
        line("ada", key="a", mode="since"),
    )

    assert told.exit_code == 1
    found = outcomes(told.stdout)
    ada, bob = found[0]["job_id"], found[1]["job_id"]
    assert [(each["line"], each["status"], each["job_id"]) for each in found] == [
        (1, "created", ada),
        (3, "created", bob),
        (4, "active", bob),
        (5, "existing", ada),
        (6, "refused", ada),
    ]
    assert (found[4]["field"], found[4]["error"]["type"]) == ("key", "KeyReused")
    assert "created 2 · existing 1 · active 1 · refused 1" in told.stderr
    by_id = {job["id"]: job for job in jobs(headgate)}
    assert (by_id[bob]["mode"], by_id[bob]["lane"]) == ("limit", "cold")


def test_a_summary_is_printed_for_people(headgate: Cli) -> None:
    Path("many.jsonl").write_text("\n".join([line("ada"), line("ada")]), encoding="utf-8")

    told = headgate("job", "submit", "--file", "many.jsonl")

    assert told.exit_code == 0, told.output
    facts = dict(each.split() for each in told.stdout.splitlines())
    assert facts == {"created": "1", "existing": "0", "active": "1", "refused": "0"}


def test_refused_lines_are_told_up_to_a_number(headgate: Cli) -> None:
    submit(headgate, line("ada", key="a"))
    wrong = [line("ada", key="a", mode="since") for _ in range(job_files.TOLD_MAX + 5)]

    told = submit(headgate, line("ada", key="a"), *wrong, options=())

    assert told.exit_code == 1
    said = told.stderr.splitlines()
    assert said[0].startswith("line 2: refused: key: it was used before for a different request")
    assert len([each for each in said if ": refused: " in each]) == job_files.TOLD_MAX
    assert f"refused   {len(wrong)}" in told.stdout


#: What a line may say, and what is said of it.
WRONG = [
    (line("ada", mode="some"), "mode: 'some' is not one of full, since, limit, history"),
    (line("ada", sync="other"), "sync: no sync is called 'other'; registered: 'sync'"),
    (line("ada", start_date="2024-01-31"), "end_date: mode history needs a day"),
    (line("ada", mode="history", start_date="2024-01-31"), "end_date: mode history needs a"),
    (line("ada", mode="history", start_date="soon"), "start_date: Invalid RFC3339 encoded"),
    (line("ada", since="2024-01-31T00:00:00", mode="since"), "since: 2024-01-31T00:00:00 has"),
    (line("ada", limit="3"), "limit: Expected `int | null`, got `str`"),
    (line(""), "user_id: must not be empty"),
    ('{"sync": "sync"}', "user_id: is missing"),
    (line("ada", user="x"), "user: is no field of a job; there are: sync, source, "),
    (line("ada", start="2024-01-31"), "start: is no field of a job; there are: sync, source"),
    (line("ada", end="2024-01-31"), "end: is no field of a job; there are: sync, source, "),
    ('{"sync": "sync"', "job: a line must be one JSON object; "),
    ("[]", "job: Expected `object`, got `array`"),
]


def test_a_wrong_line_is_refused_with_its_number_and_field_and_stops_no_other(
    headgate: Cli,
) -> None:
    lines = [line("first"), *(wrong for wrong, _ in WRONG), line("last")]

    told = submit(headgate, *lines)
    for_people = submit(headgate, *lines, options=())

    assert (told.exit_code, for_people.exit_code) == (1, 1)
    words = for_people.stderr.replace("\n", " ")
    first, *refused, last = outcomes(told.stdout)
    assert (first["status"], last["status"], last["line"]) == ("created", "created", len(lines))
    for number, (each, (_, said)) in enumerate(zip(refused, WRONG, strict=True), start=2):
        assert (each["line"], each["status"], each["job_id"]) == (number, "refused", None)
        assert each["error"]["type"] in ("InvalidInput", "UnknownSync")
        assert each["error"]["message"].startswith(said)
        assert f"line {number}: refused: {said}" in words
    assert {job["user_id"] for job in jobs(headgate)} == {"first", "last"}


def test_a_line_without_an_end_is_not_read_into_memory(headgate: Cli) -> None:
    told = submit(headgate, line("ada"), "x" * (3 * job_files.LINE_BYTES_MAX), line("bob"))

    assert told.exit_code == 1
    _, long, bob = outcomes(told.stdout)
    assert "a line must have at most" in long["error"]["message"]
    assert (bob["line"], bob["status"]) == (3, "created")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sync", "--file", "x"], "SYNC: the file's lines name it"),
        (["--user", "ada", "--file", "x"], "--user: the file's lines name it"),
        (["--delay", "3", "--file", "x"], "--delay: the file's lines name it"),
        (["--file", "nothing.jsonl"], "--file: nothing.jsonl cannot be read: No such file"),
        (["--user", "ada"], "SYNC: is missing; name it, or submit a file of jobs with --file"),
        (["sync"], "--user: is missing; name it"),
    ],
)
def test_a_file_and_a_job_in_words_exclude_each_other(
    headgate: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["headgate", "job", "submit", *arguments])

    told = headgate("job", "submit", *arguments)

    assert told.exit_code == 2
    assert said in told.stderr


def test_a_file_may_begin_with_the_mark_of_utf8(headgate: Cli) -> None:
    told = submit(headgate, "\ufeff" + line("ada"), line("bob"))

    assert told.exit_code == 0
    assert len(jobs(headgate)) == 2


def test_a_failure_says_how_far_it_came(headgate: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "BATCH", 2)
    submit_many = Jobs.submit_many

    async def fail(self: Jobs, requests: Any) -> Any:
        if any(each.user_id == "user 4" for each in requests):
            raise StoreUnavailable
        return await submit_many(self, requests)

    monkeypatch.setattr(Jobs, "submit_many", fail)
    told = submit(headgate, *(line(f"user {number}") for number in range(6)), options=())

    assert told.exit_code == 4
    said = told.stderr.replace("\n", " ")
    assert "at least 4 lines were carried out (created 4 · " in said
    assert len(jobs(headgate)) == 4


def test_it_has_failed_if_its_results_are_read_no_longer(headgate: Cli, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    count = 3 * BATCH
    file.write_text("\n".join(line(f"user {n}") for n in range(count)), encoding="utf-8")
    command = ("job", "submit", "--file", str(file), "--json")
    with processes.started("headgate", *command, folder=tmp_path) as process:
        process.stdout.readline()
        # A batch of results is more than a pipe holds.
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 1

    assert "lines were carried out" in said
    assert 0 < len(jobs(headgate)) < count


def test_ctrl_c_ends_it_while_it_waits_for_a_line(headgate: Cli, tmp_path: Path) -> None:
    del headgate
    with terminal(
        *(sys.executable, "-m", "headgate", "job", "submit", "--file", "-"),
        columns=80,
        environment={**os.environ, "PYTHONPATH": str(tmp_path)},
        folder=tmp_path,
    ) as screen:
        screen.wait_for(lambda text: "submitted" in text)

        assert screen.interrupt() == 130


@pytest.mark.thorough
def test_the_memory_does_not_grow_with_the_file(headgate: Cli, tmp_path: Path) -> None:
    """The lines of a file eight times as long take no more memory, within what varies anyway."""
    del headgate

    def peak_kb(count: int) -> int:
        file = tmp_path / f"{count}.jsonl"
        file.write_text("\n".join(line(f"user {n}") for n in range(count)), encoding="utf-8")
        code = (
            "import resource, sys; from headgate.cli.main import main; "
            "import atexit; atexit.register(lambda: print("
            "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)); main()"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code, "job", "submit", "--file", str(file)],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return int(ran.stderr.split()[-1])

    assert peak_kb(16_000) < peak_kb(2_000) + 8_000
