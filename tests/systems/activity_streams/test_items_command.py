"""`headgate items …` for activity streams: what is told to people and to programs."""

import functools
import json
from datetime import timedelta

import pytest

from headgate import App
from headgate.model import item as change
from headgate.systems.activity_streams.names import ACTIVITIES, activity_id, details_id
from headgate.toolkit.commands.loading import FAILED
from tests.cli.conftest import ONE_SYNC, Run, Use
from tests.cli.conftest import headgate as headgate
from tests.cli.conftest import in_app as in_app
from tests.cli.conftest import module as module
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
    "sqlite:///jobs.db",
    syncs=activity_streams(strava(client_id="1", client_secret=headgate.Secret("s"))),
)
"""
ID = activity_id("ada-1", 101)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys that the credentials of the connection are under."""
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(key_entries("k1")))


@pytest.fixture
def items(headgate: Run) -> Run:
    """Runs `headgate items …`."""
    return functools.partial(headgate, "items")


async def a_few(app: App) -> None:
    """One that is stuck, one in line, one that the provider put off, and one of another kind."""
    await add_connection(app, "ada")
    await stuck(app)
    await put(app, the_id=details_id(ID), collection=ACTIVITIES)
    await put(app, number=102)
    limited = await claim(app, await put(app, number=103))
    after = timedelta(minutes=15)
    await settle(app, change.defer(limited, after=after, error="429", limited=True))


def test_the_numbers_are_told_to_programs_and_to_people(items: Run, in_app: Use) -> None:
    in_app(a_few)

    told = json.loads(items("stats", "--user", "ada", "--json").stdout)
    shown = items("stats", "--user", "ada")

    activities, streams = told["collections"]
    counts = {"pending": 1, "fetching": 0, "success": 0, "failed": 1, "deferred": 1}
    assert (streams["name"], streams["title"]) == ("strava.streams", "Streams of activities")
    assert streams["states"] == {**counts, "unavailable": 0} == streams["of_user"]
    assert (streams["retries"], streams["stuck"], streams["limited_24h"]) == ({"1": 1}, 1, 1)
    assert activities["name"] == "strava.activities"
    assert {name for name, n in activities["states"].items() if n} == {"pending"}
    assert told["windows"]["strava"][0]["limit"] == "read 15min"
    assert shown.exit_code == 0
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
        assert words in shown.stdout.replace("\n--", " --"), shown.stdout


def test_a_list_by_state_is_a_line_each(items: Run, in_app: Use) -> None:
    in_app(a_few)

    told = items("list", "--state", "failed", "--state", "pending")

    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert [row[:5] for row in rows] == [
        [ID, "strava.streams", "failed", "ada", "1"],
        [details_id(ID), "strava.activities", "pending", "ada", "0"],
        [activity_id("ada-1", 102), "strava.streams", "pending", "ada", "0"],
    ]
    assert rows[0][5:] == ["when it is reset", "Malformed: no JSON"]
    assert "no items" in items("list", "--user", "nobody").stderr


def test_what_cannot_be_reset_does_not_keep_the_others_back(items: Run, in_app: Use) -> None:
    async def make(app: App) -> None:
        await add_connection(app, "ada")
        await success(app)

    in_app(make)

    told = items("reset", "nobodys", ID, "--json")

    refused, done = (json.loads(line) for line in told.stdout.splitlines())
    assert told.exit_code == FAILED
    assert (done["id"], done["state"], done["retry_count"]) == (ID, "pending", 0)
    assert "nobodys" in refused["error"]["message"]
    again = items("reset", "nobodys")
    assert again.exit_code == FAILED and "nobodys" in again.stderr


def test_an_application_without_items_says_so(items: Run, module: str) -> None:
    with open(f"{module}.py", "w", encoding="utf-8") as file:
        file.write(ONE_SYNC)

    told = items("stats", "--json")

    assert told.exit_code != 0
    error = json.loads(told.stdout)["error"]
    assert error["type"] == "InvalidInput" and "collection" in error["message"]
    # A list needs no syncs.
    assert items("list").exit_code == 0
