"""`headgate job …`, `migrate`, `--version`: data on stdout, messages on stderr, exit codes."""

import inspect
import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate import JobRequest
from headgate.cli.jobs import backfills, jobs
from headgate.cli.main import cli
from tests.cli.conftest import ONE_SYNC, Cli


def submit(headgate: Cli, *more: str) -> Any:
    return headgate.json("job", "submit", "sync", "--user", "ada", *more)


def change_row(column: str, value: object) -> None:
    """Write into the only job's row what a worker would have."""
    with closing(sqlite3.connect("jobs.db")) as database, database:
        database.execute(f"UPDATE headgate_jobs SET {column} = ?", [json.dumps(value)])


def test_submit_list_show_and_events_speak_json(headgate: Cli) -> None:
    # Given a submitted job
    told = submit(headgate, "--key", "k")
    job = told
    assert (job["state"], job["lane"], job["mode"]) == ("pending", "hot", "full")
    assert job["message"].startswith("Waiting for a worker: no worker that can do this is running")
    assert job["operator"]["waits_for"] == "no worker is running"

    # Then the same key gives the same job, and each view tells of it
    assert submit(headgate, "--key", "k") == job
    listed = headgate.json("job", "list")
    assert listed["next_cursor"] is None
    [line] = listed["data"]
    assert line == {name: job[name] for name in line}
    assert headgate.json("job", "show", job["id"]) == job
    story = headgate.json("job", "events", job["id"])
    assert [event["kind"] for event in story["data"]] == ["submitted"]


def test_a_history_job_takes_days_and_options(headgate: Cli) -> None:
    job = submit(
        headgate,
        "--mode",
        "history",
        "--from",
        "2024-01-01",
        "--to",
        "2024-01-31",
        "--options",
        '{"clear": true}',
    )
    assert (job["start_date"], job["end_date"], job["percent"]) == ("2024-01-01", "2024-01-31", 0)
    assert job["operator"]["params"] == {"options": {"clear": True}}
    assert job["lane"] == "cold"


def test_pause_resume_retry_and_cancel_say_what_became_of_the_job(headgate: Cli) -> None:
    job_id = submit(headgate)["id"]
    for command, state in (
        ("pause", "paused"),
        ("resume", "pending"),
        ("retry", "pending"),
        ("cancel", "cancelled"),
    ):
        told = headgate.json("job", command, job_id)
        assert told["state"] == state
    refused = headgate("job", "resume", job_id)
    assert refused.exit_code == 1
    assert f"job {job_id} is cancelled and cannot be resumed" in refused.stderr


def test_for_people_a_job_is_told_in_words(headgate: Cli) -> None:
    job_id = submit(headgate)["id"]
    shown = headgate("job", "show", job_id)
    assert "○ pending" in shown.stdout
    assert "Waiting for a worker: no worker that can do this is running" in shown.stdout
    assert re.search(r"^waits because +no worker is running *$", shown.stdout, re.MULTILINE)
    listed = headgate("job", "list")
    assert listed.stdout.split("\t")[:2] == [job_id, "pending"]
    events = headgate("job", "events", job_id)
    assert re.search(r"UTC  submitted +\{", events.stdout)


def test_what_the_source_counted_is_shown_beside_what_the_engine_did(headgate: Cli) -> None:
    job_id = submit(headgate)["id"]
    change_row("summary", {"records": 2, "counts": {"skipped_content": 3000, "renamed": 1}})

    shown = headgate("job", "show", job_id)

    assert re.search(r"^counted +found 2", shown.stdout, re.MULTILINE)
    line = r"^by the source +skipped_content 3,000 · renamed 1 *$"
    assert re.search(line, shown.stdout, re.MULTILINE)
    told = headgate.json("job", "show", job_id)
    assert told["source_counts"] == {"skipped_content": 3000, "renamed": 1}


def test_the_high_water_mark_is_shown(headgate: Cli) -> None:
    job_id = submit(headgate, "--mode", "since")["id"]
    assert "high water" not in headgate("job", "show", job_id).stdout
    change_row("high_water", "2026-01-03T00:00:00Z")

    shown = headgate("job", "show", job_id)

    assert re.search(r'^high water +"2026-01-03T00:00:00Z" *$', shown.stdout, re.MULTILINE)
    told = headgate.json("job", "show", job_id)
    assert told["high_water"] == "2026-01-03T00:00:00Z"


#: What is added to a good command, and the option that is named.
WRONG = [
    (("--mode", "history", "--from", "2024-01-32", "--to", "2024-02-01"), "--from"),
    (("--mode", "history", "--from", "2024-02-01", "--to", "2024-01-01"), "--to"),
    (("--mode", "history", "--to", "2024-01-01"), "--from"),
    (("--mode", "since", "--since", "yesterday"), "--since"),
    (("--mode", "limit"), "--limit"),
    (("--options", "[1]"), "--options"),
    (("--options", "{"), "--options"),
    (("--delay", "-1"), "--delay"),
]


def test_bad_input_names_the_option_and_writes_nothing(headgate: Cli) -> None:
    for arguments, option in WRONG:
        result = headgate("job", "submit", "sync", "--user", "u", *arguments)
        assert (result.exit_code, arguments) == (2, arguments)
        assert result.stderr.startswith(f"error {option}: ")
    assert headgate.json("job", "list")["data"] == []


def test_of_two_names_the_one_that_was_typed_is_told(
    headgate: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = ("job", "submit", "sync", "--user", "u", "--mode", "history")
    days = ("--start-date", "2024-02-01", "--end-date=2024-01-01")
    monkeypatch.setattr("sys.argv", ["headgate", *typed, *days])
    assert headgate(*typed, *days).stderr.startswith("error --end-date: 2024-01-01 lies before")


def test_the_beginning_of_an_id_is_enough_while_it_is_unique(headgate: Cli) -> None:
    first, second = (submit(headgate, "--user", each)["id"] for each in "ab")

    # Two ids of one millisecond differ in their last character alone.
    unique = 1 + next(
        at for at, pair in enumerate(zip(first, second, strict=True)) if len(set(pair)) > 1
    )
    for job in (first, second):
        assert headgate.json("job", "show", job[:unique])["id"] == job
    several = headgate("job", "show", "job_0")
    assert several.exit_code == 2
    assert "2 begin with 'job_0'" in several.stderr and first in several.stderr
    assert headgate("job", "show", "job_0Z").exit_code == 1


def test_several_jobs_are_named_at_once_or_piped_in(headgate: Cli) -> None:
    jobs = [submit(headgate, "--user", each)["id"] for each in "ab"]

    paused = headgate("job", "pause", *jobs, "job_nothing", "--json")
    told = [json.loads(line) for line in paused.stdout.splitlines()]
    assert paused.exit_code == 1
    assert [each.get("state") for each in told] == ["paused", "paused", None]
    assert "job_nothing" in told[2]["error"]["message"]
    resumed = headgate("job", "resume", "-", stdin=headgate("job", "list").stdout)
    assert resumed.exit_code == 0 and resumed.stdout.count("Waiting for a worker") == 2


def test_a_sync_with_one_mode_needs_none_named(headgate: Cli, tmp_path: Path) -> None:
    module = os.environ["HEADGATE_APP"].partition(":")[0]
    text = ONE_SYNC.replace("source=Source()", "source=Source(), modes=[headgate.Mode.SINCE]")
    (tmp_path / f"{module}_2.py").write_text(text, encoding="utf-8")
    ended = headgate(
        *("job", "submit", "sync", "--user", "ada", "--since", "24h"),
        *("--app", f"{module}_2:app", "--json"),
    )
    assert json.loads(ended.stdout)["mode"] == "since"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("headgate job submit s", ["sync"]), ("headgate sandbox f", ["foursquare"])],
)
def test_a_shell_completes_names(headgate: Cli, typed: str, offered: list[str]) -> None:
    assert complete(typed) == offered


def test_a_shell_completes_ids(headgate: Cli) -> None:
    job = submit(headgate)["id"]
    assert complete(f"headgate job show {job[:8]}") == [job]
    assert complete("headgate job show conn_") == []


def complete(typed: str) -> list[str]:
    """What a shell offers after this."""
    last = str(len(typed.split(" ")) - 1)
    asked = {"_HEADGATE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": last}
    result = CliRunner().invoke(cli, [], prog_name="headgate", env=asked)
    return result.stdout.split()


def test_a_worker_takes_one_job_and_shows_it(headgate: Cli) -> None:
    jobs = [submit(headgate, "--user", each)["id"] for each in "ab"]

    once = headgate("worker", "--once", "--json")
    assert once.exit_code == 0
    [shown] = [json.loads(line) for line in once.stdout.splitlines()]
    assert (shown["id"], shown["state"]) == (jobs[0], "success")
    rest = headgate("worker", "--until-idle")
    assert rest.exit_code == 0
    states = [each["state"] for each in headgate.json("job", "list")["data"]]
    assert states == ["success", "success"]
    assert "no job is due" in headgate("worker", "--once").stderr


def test_a_wrong_setting_is_named(headgate: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_LEASE_S", "0")
    result = headgate("job", "list")
    assert result.exit_code == 4
    assert "HEADGATE_LEASE_S" in result.stderr


def test_migrate_says_what_it_did(headgate: Cli) -> None:
    first = headgate("migrate", "-d", "sqlite:///other.db")
    assert "migrated from an empty database to revision" in first.stdout
    again = headgate.json("migrate", "-d", "sqlite:///other.db")
    assert again["headgate"]["changed"] is False
    wrong = headgate("migrate", "-d", "mysql://host/db")
    assert wrong.exit_code == 4
    assert "use sqlite, postgresql or dynamodb" in wrong.stderr


def test_the_version_is_told(headgate: Cli) -> None:
    told = headgate("--version").stdout
    assert re.match(r"headgate \d+\.\d+\.\d+\nSQLite \d+\.\d+\.\d+", told)


@pytest.mark.security(30)
@pytest.mark.parametrize(("version", "guarded"), [((3, 51, 2), True), ((3, 51, 3), False)])
def test_the_version_says_whether_sqlite_needs_its_checkpoints_guarded(
    headgate: Cli, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], guarded: bool
) -> None:
    monkeypatch.setattr("sqlite3.sqlite_version_info", version)

    assert ("lets nobody commit meanwhile" in headgate("--version").stdout) == guarded


@pytest.mark.parametrize(
    ("command", "without"),
    [
        (jobs.submit, set()),
        (backfills.start_backfill, {"source", "destination", "mode", "since", "limit"}),
    ],
)
def test_every_field_of_a_job_is_an_option(command: Any, without: set[str]) -> None:
    fields = set(JobRequest.__struct_fields__)

    assert set(inspect.signature(command).parameters) & fields == fields - without


def test_a_source_and_a_destination_stand_for_the_sync(headgate: Cli) -> None:
    job = headgate.json("job", "submit", "--source", "fake", "--user", "ada")
    assert job["sync"] == "sync"
