"""`headgate items …`: the numbers, the list and the reset, for people and for programs."""

import asyncio
import importlib
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from headgate import App
from headgate.cli import items
from headgate.model import item as change
from headgate.systems.activity_streams.names import ACTIVITIES, activity_id, details_id
from headgate.toolkit.commands.loading import FAILED
from tests.connecting import key_entries
from tests.systems.activity_streams.test_api import (
    add_connection,
    claim,
    put,
    settle,
    stuck,
    success,
)

APP = """
import headgate
from headgate.connectors.strava import strava
from headgate.systems.activity_streams.syncs import activity_streams

app = headgate.App(
    "sqlite:///items.db",
    syncs=activity_streams(strava(client_id="1", client_secret=headgate.Secret("s"))),
)
"""
ID = activity_id("ada-1", 101)

Run = Callable[..., Result]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder with an application in it; the module's name."""
    name = f"items_app_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(key_entries("k1")))
    monkeypatch.setenv("HEADGATE_APP", f"{name}:app")
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def headgate(module: str) -> Run:
    """Runs `headgate items …`; each call is a process of its own, as far as the app can tell."""
    root = typer.Typer()
    root.add_typer(items.commands, name="items")
    runner = CliRunner()

    def run(*arguments: str) -> Result:
        sys.modules.pop(module, None)
        return runner.invoke(root, ["items", *arguments])

    return run


@pytest.fixture
def given(module: str) -> Callable[[Callable[[App], Awaitable[Any]]], None]:
    """Puts things into the application's store."""

    def fill(make: Callable[[App], Awaitable[Any]]) -> None:
        sys.modules.pop(module, None)
        app: App = importlib.import_module(module).app

        async def opened() -> None:
            async with app:
                await add_connection(app, "ada")
                await make(app)

        asyncio.run(opened())

    return fill


Rows = Callable[[Callable[[App], Awaitable[Any]]], None]


async def a_few(app: App) -> None:
    """One that is stuck, one in line, one that the provider put off, and one of another kind."""
    await stuck(app)
    await put(app, the_id=details_id(ID), collection=ACTIVITIES)
    await put(app, number=102)
    limited = await claim(app, await put(app, number=103))
    after = timedelta(minutes=15)
    await settle(app, change.defer(limited, after=after, error="429", limited=True))


def test_the_numbers_are_told_to_programs(headgate: Run, given: Rows) -> None:
    given(a_few)

    told = json.loads(headgate("stats", "--user", "ada", "--json").stdout)

    activities, streams = told["collections"]
    counts = {"pending": 1, "fetching": 0, "success": 0, "failed": 1, "deferred": 1}
    assert (streams["name"], streams["title"]) == ("strava.streams", "Streams of activities")
    assert streams["states"] == {**counts, "unavailable": 0} == streams["of_user"]
    assert (streams["retries"], streams["stuck"], streams["limited_24h"]) == ({"1": 1}, 1, 1)
    assert activities["name"] == "strava.activities"
    assert {name for name, n in activities["states"].items() if n} == {"pending"}
    assert told["windows"]["strava"][0]["limit"] == "read 15min"


def test_the_numbers_are_told_to_people(headgate: Run, given: Rows) -> None:
    given(a_few)

    told = headgate("stats", "--user", "ada")

    assert told.exit_code == 0
    for words in (
        "✘ failed",
        "failed, by attempts: 1 after 1",
        "Streams of activities (strava.streams)",
        "Activities in full (strava.activities)",
        "stuck until they are reset: 1; see headgate items list --collection strava.streams "
        "--state failed",
        "429 from the provider in the last 24 hours: 1",
        "strava read 15min: 0 of 100 used",
        "of ada",
    ):
        assert words in told.stdout.replace("\n--", " --"), told.stdout


def test_a_list_by_state_is_a_line_each(headgate: Run, given: Rows) -> None:
    given(a_few)

    told = headgate("list", "--state", "failed", "--state", "pending")

    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert [row[:5] for row in rows] == [
        [ID, "strava.streams", "failed", "ada", "1"],
        [details_id(ID), "strava.activities", "pending", "ada", "0"],
        [activity_id("ada-1", 102), "strava.streams", "pending", "ada", "0"],
    ]
    assert rows[0][5:] == ["when it is reset", "Malformed: no JSON"]
    one = headgate("list", "--collection", "strava.activities")
    assert [line.split("\t")[0] for line in one.stdout.splitlines()] == [details_id(ID)]


def test_a_long_list_goes_on_where_it_ended(headgate: Run, given: Rows) -> None:
    given(a_few)

    first = json.loads(headgate("list", "--limit", "2", "--json").stdout)
    rest = json.loads(headgate("list", "--after", first["next_cursor"], "--json").stdout)

    listed = [each["id"] for each in first["data"] + rest["data"]]
    assert listed == [ID, details_id(ID), *(activity_id("ada-1", at) for at in (102, 103))]
    assert first["data"][0]["stuck"] is True
    assert rest["next_cursor"] is None
    assert "no items" in headgate("list", "--user", "nobody").stderr


def test_a_reset_sets_them_going_again(headgate: Run, given: Rows) -> None:
    given(a_few)

    told = headgate("reset", ID)

    assert (told.exit_code, told.stdout) == (0, f"{ID} is pending again\n")
    [item] = json.loads(headgate("list", "--limit", "1", "--json").stdout)["data"]
    assert (item["state"], item["retry_count"], item["stuck"]) == ("pending", 0, False)


def test_items_of_every_kind_are_reset(headgate: Run, given: Rows) -> None:
    async def make(app: App) -> None:
        await put(app, the_id=details_id(ID), collection=ACTIVITIES)
        item = await claim(app, await app.items.get(details_id(ID)))
        await settle(app, change.fail(item, error="Malformed: no JSON", after=None))

    given(make)

    assert headgate("reset", details_id(ID)).exit_code == 0

    [item] = json.loads(headgate("list", "--json").stdout)["data"]
    assert (item["state"], item["collection"]) == ("pending", "strava.activities")


def test_what_cannot_be_reset_does_not_keep_the_others_back(headgate: Run, given: Rows) -> None:
    given(success)

    told = headgate("reset", "nobodys", ID, "--json")

    refused, done = (json.loads(line) for line in told.stdout.splitlines())
    assert told.exit_code == FAILED
    assert done["id"] == ID and "nobodys" in refused["error"]["message"]
    again = headgate("reset", "nobodys")
    assert again.exit_code == FAILED and "nobodys" in again.stderr


def test_an_application_without_items_says_so(
    headgate: Run, tmp_path: Path, store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(store_file, tmp_path / "bare.db")
    (tmp_path / "bare_app.py").write_text(
        'import headgate\napp = headgate.App("sqlite:///bare.db")\n', encoding="utf-8"
    )
    monkeypatch.setenv("HEADGATE_APP", "bare_app:app")

    told = headgate("stats", "--json")

    assert told.exit_code != 0
    error = json.loads(told.stdout)["error"]
    assert error["type"] == "InvalidInput" and "collection" in error["message"]
    # A list needs no syncs.
    assert headgate("list").exit_code == 0
