"""`headgate notify …` without a network: what is listed, made and refused."""

import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate import App
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock
from headgate.base.secret import Secret
from headgate.base.signing import is_signing_secret
from headgate.cli.main import cli
from headgate.model import change
from headgate.model.job import Lane, Reason
from headgate.toolkit.commands.loading import FAILED, USAGE
from tests.stores import LEASE

APP = """
import headgate
from tests.notifying import {settings}
from tests.worlds import ScriptedSource

async def read(ctx):
    return headgate.Chunk()

app = headgate.App(
    "sqlite:///notes.db",
    syncs=[headgate.Sync(name="notes", source=ScriptedSource(read))],
    notifications={settings},
)
"""

Run = Callable[..., Result]


class Place:
    """A folder with an application, whose commands are run."""

    def __init__(self, folder: Path, settings: str) -> None:
        self.module = f"notify_app_{abs(hash(folder))}"
        (folder / f"{self.module}.py").write_text(APP.format(settings=settings), encoding="utf-8")

    def run(self, *arguments: str) -> Result:
        sys.modules.pop(self.module, None)
        return CliRunner().invoke(cli, ["notify", *arguments])

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        return json.loads(result.stdout)

    def use(self, do: Callable[[App], Awaitable[Any]]) -> Any:
        """What a test does with the application, opened."""
        log.configure(SystemClock(), json=True, level="critical")
        sys.modules.pop(self.module, None)
        app: App = import_module(self.module).app

        async def opened() -> Any:
            async with app:
                return await do(app)

        return event_loop.run(opened())


@pytest.fixture
def make(
    tmp_path: Path, store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Place]]:
    """Makes an application that notifies as `tests.notifying` says."""
    shutil.copyfile(store_file, tmp_path / "notes.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[Place] = []

    def place(settings: str = "BY_WEBHOOK") -> Place:
        made.append(Place(tmp_path, settings))
        monkeypatch.setenv("HEADGATE_APP", f"{made[-1].module}:app")
        return made[-1]

    yield place
    for each in made:
        sys.modules.pop(each.module, None)


async def fail_for(app: App, user: str) -> None:
    """A job of the user's that fails."""
    await app.jobs.submit("notes", user_id=user, connection_id=f"{user}-1", mode="full")
    claimed = await app._store.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)
    jobs = [*claimed.jobs] or [
        *(await app._store.claim(Lane.HOT, worker="w", limit=1, lease=LEASE)).jobs
    ]
    await app._store.settle(change.fail(jobs[0], reason=Reason.REFUSED, error="no"))


def test_a_secret_is_made_and_printed_once(make: Callable[[], Place]) -> None:
    place = make()
    result = place.run("secret")
    assert result.exit_code == 0 and is_signing_secret(Secret(result.stdout.strip()))
    assert "HEADGATE_NOTIFY_WEBHOOK_SECRET_FILE" in result.stderr
    assert is_signing_secret(Secret(place.json("secret")["secret"]))


def test_what_people_were_told_is_listed(make: Callable[[], Place]) -> None:
    place = make()
    result = place.run("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing is the matter" in result.stderr

    async def fail_both(app: App) -> None:
        await fail_for(app, "ada")
        await fail_for(app, "bob")

    place.use(fail_both)
    lines = place.run("list").stdout.splitlines()
    assert [line.split("\t")[:4] for line in lines] == [
        ["ada", "ada-1", "notes", "failed"],
        ["bob", "bob-1", "notes", "failed"],
    ]
    result = place.run("list", "--limit", "1")
    assert len(result.stdout.splitlines()) == 1 and "there are more" in result.stderr
    told = place.json("list", "--user", "bob")
    assert told["more"] is False
    [row] = told["data"]
    assert (row["user_id"], row["trouble"], row["paused_at"]) == ("bob", "failed", None)


def test_without_anybody_to_notify_it_says_what_to_set(make: Callable[[str], Place]) -> None:
    place = make("BY_WEBHOOK")
    text = APP.format(settings="BY_WEBHOOK").replace("notifications=BY_WEBHOOK,", "")
    Path(f"{place.module}.py").write_text(text, encoding="utf-8")
    result = place.run("test")
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
    make: Callable[[str], Place], settings: str, arguments: list[str], said: str
) -> None:
    result = make(settings).run("test", *arguments)
    assert result.exit_code == USAGE
    assert said in result.stderr


def test_a_test_that_does_not_arrive_fails_and_says_why(make: Callable[[str], Place]) -> None:
    # Nobody listens at the port of this mail server.
    place = make("BY_EMAIL")
    result = place.run("test", "--operator")
    assert result.exit_code == FAILED
    assert "notify.operator has not accepted it in 1 attempt" in result.stderr
    assert "it could not be reached" in result.stderr
    [told] = place.json("test", "--operator")["data"]
    assert (told["target"], told["state"], told["stopped"]) == ("notify.operator", "failed", None)
