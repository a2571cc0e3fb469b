"""`headgate api-key …`: a key is told once, listed without its secret, and taken back."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.cli.api_keys import commands

Run = Callable[..., Result]


@pytest.fixture
def headgate(tmp_path: Path, store_file: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in a folder with an empty database."""
    shutil.copyfile(store_file, tmp_path / "headgate.db")
    monkeypatch.chdir(tmp_path)
    for name in ("HEADGATE_APP", "HEADGATE_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    runner = CliRunner()
    return lambda *arguments: runner.invoke(commands, list(arguments))


def test_a_key_is_made_listed_and_revoked(headgate: Run) -> None:
    made = headgate("new", "phone", "--user", "ada")
    assert made.exit_code == 0, made.output
    [token] = made.stdout.splitlines()
    key_id, _, secret = token.removeprefix("hg_").rpartition("_")
    assert len(secret) == 64 and key_id in made.stderr and secret not in made.stderr

    listed = headgate("list")
    assert key_id in listed.stdout and "valid" in listed.stdout and secret not in listed.output

    assert headgate("revoke", key_id).exit_code == 0
    assert "revoked" in headgate("list").stdout


def test_everything_is_told_as_json(headgate: Run) -> None:
    made = json.loads(headgate("new", "console", "--role", "admin", "--json").stdout)
    assert (made["role"], made["user_id"], made["name"]) == ("admin", None, "console")
    assert made["key"].startswith(f"hg_{made['id']}_")

    [listed] = json.loads(headgate("list", "--json").stdout)["data"]
    assert listed["id"] == made["id"] and "key" not in listed and "hash" not in listed

    revoked = json.loads(headgate("revoke", made["id"], "--json").stdout)
    assert revoked["revoked_at"] is not None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["new", "phone"], 2),
        (["new", "phone", "--role", "admin", "--user", "ada"], 2),
        (["new", "", "--user", "ada"], 2),
        (["new", "phone", "--user", "a\nb"], 2),
        (["new", "phone", "--role", "owner"], 2),
        (["list", "--limit", "0"], 2),
        (["revoke", "key_404"], 1),
    ],
)
def test_what_is_wrong_is_refused(headgate: Run, arguments: list[str], code: int) -> None:
    assert headgate(*arguments).exit_code == code
    assert headgate("list").stdout == ""
