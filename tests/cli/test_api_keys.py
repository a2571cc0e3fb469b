"""`headgate api-key …`: a key is told once, listed without its secret, and taken back."""

import pytest

from tests.cli.conftest import Cli


@pytest.fixture
def api_key(without_app: Cli) -> Cli:
    """Runs `headgate api-key …` on an empty database."""
    return without_app.of("api-key")


def test_a_key_is_made_listed_and_revoked(api_key: Cli) -> None:
    made = api_key("new", "phone", "--user", "ada")
    assert made.exit_code == 0, made.output
    [token] = made.stdout.splitlines()
    key_id, _, secret = token.removeprefix("hg_").rpartition("_")
    assert len(secret) == 64 and key_id in made.stderr and secret not in made.stderr

    listed = api_key("list")
    assert key_id in listed.stdout and "valid" in listed.stdout and secret not in listed.output

    assert api_key("revoke", key_id).exit_code == 0
    assert "revoked" in api_key("list").stdout


def test_everything_is_told_as_json(api_key: Cli) -> None:
    made = api_key.json("new", "console", "--role", "admin")
    assert (made["role"], made["user_id"], made["name"]) == ("admin", None, "console")
    assert made["key"].startswith(f"hg_{made['id']}_")

    [listed] = api_key.json("list")["data"]
    assert listed["id"] == made["id"] and "key" not in listed and "hash" not in listed

    revoked = api_key.json("revoke", made["id"])
    assert revoked["revoked_at"] is not None


#: What was typed, and the code of the end.
WRONG: list[tuple[list[str], int]] = [
    (["new", "phone"], 2),
    (["new", "phone", "--role", "admin", "--user", "ada"], 2),
    (["new", "", "--user", "ada"], 2),
    (["new", "phone", "--user", "a\nb"], 2),
    (["new", "phone", "--role", "owner"], 2),
    (["list", "--limit", "0"], 2),
    (["revoke", "key_404"], 1),
]


def test_what_is_wrong_is_refused(api_key: Cli) -> None:
    for arguments, code in WRONG:
        assert api_key(*arguments).exit_code == code, arguments
    assert api_key("list").stdout == ""
