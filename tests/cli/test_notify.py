"""`headgate notify …` without a network: what is listed, made and refused."""

import json

import pytest

from headgate import App
from headgate.base.secret import Secret
from headgate.base.signing import is_signing_secret
from headgate.model import change
from headgate.model.job import Lane, Reason
from headgate.toolkit.commands.loading import FAILED, USAGE
from tests.cli.conftest import Cli, Use
from tests.stores import LEASE

APP = """
import os
import headgate
from tests import notifying
from tests.worlds import ScriptedSource

async def read(ctx):
    return headgate.Chunk()

settings = os.environ.get("NOTIFYING", "BY_WEBHOOK")
app = headgate.App(
    "sqlite:///jobs.db",
    syncs=[headgate.Sync(name="notes", source=ScriptedSource(read))],
    notifications=getattr(notifying, settings, None),
)
"""


@pytest.fixture
def notify(headgate: Cli) -> Cli:
    """Runs `headgate notify …`, where users are told as NOTIFYING says."""
    return headgate.of("notify")


async def fail_for(app: App, user: str) -> None:
    """A job of the user's that fails."""
    await app.jobs.submit("notes", user_id=user, mode="full")
    claimed = await app._runtime.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)
    jobs = [*claimed.jobs] or [
        *(await app._runtime.jobs.claim(Lane.HOT, worker="w", limit=1, lease=LEASE)).jobs
    ]
    await app._runtime.jobs.settle(change.fail(jobs[0], reason=Reason.REFUSED, error="no"))


def test_a_secret_is_made_and_printed_once(notify: Cli) -> None:
    result = notify("secret")
    assert result.exit_code == 0 and is_signing_secret(Secret(result.stdout.strip()))
    assert "HEADGATE_NOTIFY_WEBHOOK_SECRET_FILE" in result.stderr
    assert is_signing_secret(Secret(notify.json("secret")["secret"]))


def test_what_people_were_told_is_listed(notify: Cli, in_app: Use) -> None:
    result = notify("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing is the matter" in result.stderr

    async def fail_both(app: App) -> None:
        await fail_for(app, "ada")
        await fail_for(app, "bob")

    in_app(fail_both)
    lines = notify("list").stdout.splitlines()
    assert [line.split("\t")[:4] for line in lines] == [
        ["ada", "ada", "notes", "failed"],
        ["bob", "bob", "notes", "failed"],
    ]
    result = notify("list", "--limit", "1")
    assert len(result.stdout.splitlines()) == 1 and "there are more" in result.stderr
    told = notify.json("list", "--user", "bob")
    assert told["more"] is False
    [row] = told["data"]
    assert (row["user_id"], row["trouble"], row["paused_at"]) == ("bob", "failed", None)


def test_without_anybody_to_notify_it_says_what_to_set(
    notify: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFYING", "nobody")
    result = notify("test")
    assert result.exit_code == USAGE
    assert "HEADGATE_SMTP_HOST" in result.stderr and "HEADGATE_NOTIFY_WEBHOOK_URL" in result.stderr


@pytest.mark.parametrize(
    ("settings", "arguments", "said"),
    [
        ("BY_WEBHOOK", ["--email", "a@example.com"], "--email: it is not configured: set HEADGATE"),
        (
            "BY_WEBHOOK",
            ["--operator"],
            "--operator: it is not configured: set HEADGATE_NOTIFY_OPER",
        ),
        ("BY_EMAIL", ["--webhook"], "--webhook: it is not configured: set HEADGATE_NOTIFY_WEBHOOK"),
        ("BY_USER_EMAIL", [], "--email: name the address that the e-mail goes to"),
        ("BY_EMAIL", ["--email", "nobody"], "to: must be an e-mail address"),
    ],
)
def test_what_cannot_be_tested_is_refused(
    notify: Cli,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.setenv("NOTIFYING", settings)
    result = notify("test", *arguments)
    assert result.exit_code == USAGE
    assert said in result.stderr


def test_a_test_that_does_not_arrive_fails_and_says_why(
    notify: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody listens at the port of this mail server.
    monkeypatch.setenv("NOTIFYING", "BY_EMAIL")
    result = notify("test", "--operator")
    assert result.exit_code == FAILED
    assert "notify.operator has not accepted it in 1 attempt" in result.stderr
    assert "it could not be reached" in result.stderr
    [told] = json.loads(notify("test", "--operator", "--json").stdout)["data"]
    assert (told["target"], told["state"], told["stopped"]) == ("notify.operator", "failed", None)
