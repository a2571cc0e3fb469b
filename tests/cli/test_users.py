"""`headgate user …`: shown, seen, changed field by field, paused and resumed."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from headgate.toolkit.commands import output
from tests.cli.conftest import Cli


@pytest.fixture
def user(without_app: Cli) -> Cli:
    """Runs `headgate user …` on an empty database."""
    return without_app.of("user")


def test_a_user_is_seen_and_shown(user: Cli) -> None:
    seen = user.json("seen", "ada")
    assert seen["last_login_at"] == seen["created_at"] is not None
    assert user.json("show", "ada") == seen

    shown = user("show", "ada").stdout
    for fact in ("ada", "daily at the schedule's time, UTC", "serve the user", "not by e-mail"):
        assert fact in shown


def test_preferences_are_changed_where_given_and_unset_by_none(user: Cli) -> None:
    first = user.json(
        *("preferences", "ada", "--frequency", "weekly", "--time", "06:30"),
        *("--zone", "Europe/Vienna", "--email", "ada@example.org", "--no-notify"),
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


def test_a_pause_says_who_and_why_and_what_to_do_next(user: Cli) -> None:
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


def test_users_are_listed_in_pages(user: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no users" in user("list").stderr
    for each in ("bob", "ada", "eve"):
        user("plan", each, "premium")

    lines = user("list").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["ada", "bob", "eve"]
    assert lines[0].split("\t")[1:4] == ["on", "never", "premium"]
    first = user("list", "--limit", "2")
    assert "--after bob" in first.stderr
    page = user.json("list", "--limit", "2")
    assert [each["id"] for each in page["data"]] == ["ada", "bob"]
    rest = user.json("list", "--after", page["next_cursor"])
    assert ([each["id"] for each in rest["data"]], rest["next_cursor"]) == (["eve"], None)

    # In a terminal it is a table with its columns named.
    terminal = Console(force_terminal=True, width=120, highlight=False, no_color=True)
    monkeypatch.setattr(output, "out", terminal)
    assert "last here" in user("list").output


#: What was typed, the code of the end, and what is said of it.
WRONG: list[tuple[list[str], int, str]] = [
    (["show", "adda"], 1, "there is no user 'adda'; see: headgate user list"),
    (["pause", "adda"], 1, "there is no user 'adda'; see: headgate user list"),
    (["resume", "adda"], 1, "there is no user 'adda'; see: headgate user list"),
    (["preferences", "adda"], 1, "there is no user 'adda'"),
    (["preferences", "ada", "--time", "25:00"], 2, "time: must be a time of day"),
    (["preferences", "ada", "--zone", "Mars"], 2, "zone: must be the IANA name"),
    (["preferences", "ada", "--email", "ada"], 2, "email: must be an e-mail address"),
    (["preferences", "ada", "--frequency", "hourly"], 2, "hourly"),
    (["seen", ""], 2, "USER: must not be empty"),
    (["list", "--limit", "0"], 2, "limit"),
]


def test_what_is_wrong_is_refused(user: Cli) -> None:
    for arguments, code, said in WRONG:
        result = user(*arguments)

        assert (result.exit_code, said in result.stderr) == (code, True), arguments
    assert user("list").stdout == ""


# ---- exporting and erasing ---------------------------------------------------------------------


def test_a_user_is_exported_to_a_new_private_file_or_to_stdout(user: Cli, tmp_path: Path) -> None:
    user("plan", "ada", "premium")

    printed = user("export", "ada")
    written = user("export", "ada", "--output", "ada.jsonl")

    file = tmp_path / "ada.jsonl"
    [line] = file.read_text().splitlines()
    assert json.loads(line) == json.loads(printed.stdout)
    assert (json.loads(line)["type"], json.loads(line)["plan"]) == ("user", "premium")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "1 line to ada.jsonl" in written.stderr
    again = user("export", "ada", "--output", "ada.jsonl")
    assert again.exit_code == 1
    assert "ada.jsonl exists already; name a new file" in again.stderr
    assert "nothing is stored of bob" in user("export", "bob").stderr


def test_a_user_is_erased_only_if_somebody_means_it(user: Cli) -> None:
    user("plan", "ada", "premium")

    unsure = user("forget", "ada")
    assert unsure.exit_code == 3
    assert "--yes" in unsure.stderr and "deleted for ever" in unsure.stderr
    assert user.json("show", "ada")["plan"] == "premium"

    erased = user("forget", "ada", "--yes")

    assert "ada is erased: 1 row (user 1)" in erased.stdout
    assert "not erased from notes-index, which could not be started" in erased.stderr
    assert user("show", "ada").exit_code == 1
    again = user.json("forget", "ada", "--yes")
    assert (again["finished"], again["deleted"]) == (True, {})
    assert again["unreached"] == ["notes-index"]
    nothing = user("forget", "ada", "--yes")
    assert "nothing was stored of ada" in nothing.stdout
    # In a pipe there is no display, and no trace of one.
    assert "" not in nothing.stderr.splitlines()
