"""`headgate user …`: shown, seen, changed field by field, paused and resumed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from headgate.cli.users import commands
from headgate.toolkit.commands import output

Run = Callable[..., Result]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("HEADGATE_APP", "HEADGATE_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    runner = CliRunner()
    return lambda *arguments: runner.invoke(commands, list(arguments))


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_user_is_seen_and_shown(user: Run) -> None:
    seen = told(user("seen", "ada", "--json"))
    assert seen["last_login_at"] == seen["created_at"] is not None
    assert told(user("show", "ada", "--json")) == seen

    shown = user("show", "ada").stdout
    for fact in ("ada", "daily at the schedule's time, UTC", "serve the user", "not by e-mail"):
        assert fact in shown


def test_preferences_are_changed_where_given_and_unset_by_none(user: Run) -> None:
    first = told(
        user(
            *("preferences", "ada", "--frequency", "weekly", "--time", "06:30"),
            *("--zone", "Europe/Vienna", "--email", "ada@example.org", "--no-notify", "--json"),
        )
    )
    assert first["preferences"] == {
        "frequency": "weekly",
        "time": "06:30",
        "zone": "Europe/Vienna",
        "email": "ada@example.org",
        "notify": False,
    }
    shown = user("preferences", "ada").stdout
    assert "weekly at 06:30, Europe/Vienna" in shown and "opted out" in shown

    again = user("preferences", "ada", "--notify", "--time", "none")
    assert "weekly at the schedule's time, Europe/Vienna" in again.stdout
    assert "to ada@example.org" in again.stdout
    assert "not by e-mail" in user("preferences", "ada", "--email", "none").stdout


def test_a_pause_says_who_and_why_and_what_to_do_next(user: Run) -> None:
    user("seen", "ada")

    paused = user("pause", "ada", "--reason", "on holiday", "--by", "eve")
    facts = [line.split(maxsplit=1) for line in paused.stdout.splitlines()]
    assert ["because", "on holiday"] in [[name, value.rstrip()] for name, value in facts]
    assert "paused by      eve" in paused.stdout
    assert "skip the user since" in paused.stdout
    assert "next: headgate user resume ada" in paused.stderr
    assert user("list").stdout.split("\t")[1] == "paused"
    resumed = user("resume", "ada")
    assert "serve the user" in resumed.stdout and "next:" not in resumed.stderr
    assert "paused by      command line" in user("pause", "ada").stdout


def test_users_are_listed_in_pages(user: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no users" in user("list").stderr
    for each in ("bob", "ada", "eve"):
        user("plan", each, "premium")

    lines = user("list").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["ada", "bob", "eve"]
    assert lines[0].split("\t")[1:4] == ["on", "never", "premium"]
    first = user("list", "--limit", "2")
    assert "--after bob" in first.stderr
    page = told(user("list", "--limit", "2", "--json"))
    assert [each["id"] for each in page["data"]] == ["ada", "bob"]
    rest = told(user("list", "--after", page["next_cursor"], "--json"))
    assert ([each["id"] for each in rest["data"]], rest["next_cursor"]) == (["eve"], None)

    # In a terminal it is a table with its columns named.
    terminal = Console(force_terminal=True, width=120, highlight=False, no_color=True)
    monkeypatch.setattr(output, "out", terminal)
    assert "last here" in user("list").output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "adda"], 1, "there is no user 'adda'; see: headgate user list"),
        (["pause", "adda"], 1, "there is no user 'adda'; see: headgate user list"),
        (["resume", "adda"], 1, "there is no user 'adda'; see: headgate user list"),
        (["preferences", "adda"], 1, "there is no user 'adda'"),
        (["preferences", "ada", "--time", "25:00"], 2, "time: must be a time of day"),
        (["preferences", "ada", "--zone", "Mars"], 2, "zone: must be the IANA name"),
        (["preferences", "ada", "--email", "ada"], 2, "email: must be an e-mail address"),
        (["preferences", "ada", "--frequency", "hourly"], 2, "hourly"),
        (["seen", ""], 2, "user_id: must not be empty"),
        (["list", "--limit", "0"], 2, "limit"),
    ],
)
def test_what_is_wrong_is_refused(user: Run, arguments: list[str], code: int, said: str) -> None:
    result = user(*arguments)

    assert result.exit_code == code
    assert said in result.stderr
    assert user("list").stdout == ""
