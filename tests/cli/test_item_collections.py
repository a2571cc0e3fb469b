"""`headgate items …` for an application of two collections that no system of ours knows."""

import pytest

from headgate import App
from headgate.toolkit.commands.loading import USAGE
from tests.cli.conftest import Ask, Cli, Use
from tests.collecting import COMMENTS, connect, put, stuck
from tests.connecting import key_entries

APP = """
import headgate
from tests.collecting import notes_sync

app = headgate.App("sqlite:///jobs.db", syncs=[notes_sync()])
"""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys that the credentials of the collections' connection are under."""
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(key_entries("k1")))


@pytest.fixture
def items(headgate: Cli) -> Cli:
    """Runs `headgate items …`."""
    return headgate.of("items")


async def a_few(app: App) -> str:
    """One that is stuck and two in line, of two collections; the connection's id."""
    connection = (await connect(app)).id
    await stuck(app, "a", connection_id=connection)
    await put(app, "b", COMMENTS, connection_id=connection)
    await put(app, "c", connection_id=connection)
    return connection


def test_the_numbers_are_told_of_every_collection_or_of_one(items: Cli, in_app: Use) -> None:
    in_app(a_few)

    both = items.json("stats", "--user", "ada")["collections"]
    assert [each["name"] for each in both] == ["notes.attachments", "notes.comments"]
    assert [(each["stuck"], each["states"]["pending"]) for each in both] == [(1, 1), (0, 1)]
    one = items("stats", "--collection", "notes.comments")
    assert "Comments (notes.comments)" in one.stdout
    assert "attachments" not in one.stdout


def test_a_list_is_of_all_or_of_one_collection(items: Cli, in_app: Use) -> None:
    in_app(a_few)

    def listed(*more: str) -> list[str]:
        return [line.split("\t")[0] for line in items("list", *more).stdout.splitlines()]

    assert listed() == ["a", "b", "c"]
    assert listed("--collection", "notes.comments") == ["b"]
    assert listed("--collection", "notes.attachments", "--state", "failed") == ["a"]
    first = items("list", "--limit", "2")
    assert first.stdout.count("\n") == 2 and "there are more: --after b" in first.stderr
    assert listed("--after", "b") == ["c"]


@pytest.mark.parametrize("command", ["list", "stats"])
def test_an_unknown_collection_is_told_with_those_that_there_are(items: Cli, command: str) -> None:
    told = items(command, "--collection", "nowhere")

    assert told.exit_code == USAGE
    assert "'nowhere' is not declared; there are: notes.attachments, notes.comments" in told.stderr


def test_a_reset_asks_for_the_job_that_fetches_the_collection(items: Cli, in_app: Use) -> None:
    connection = in_app(a_few)

    assert items("reset", "b").stdout == "b is pending again\n"
    assert in_app(lambda app: app.jobs.list()) == []
    assert items("reset", "a").stdout == "a is pending again\n"
    [job] = in_app(lambda app: app.jobs.list())
    assert (job.sync, job.connection_id) == ("notes", connection)


def test_the_command_line_tells_items_as_the_api_does(items: Cli, in_app: Use, asked: Ask) -> None:
    in_app(a_few)

    some = ("--collection", "notes.attachments", "--state", "failed", "--user", "ada")
    for options, query in (
        ((), ""),
        (("--limit", "2"), "?limit=2"),
        (some, "?collection=notes.attachments&state=failed&user_id=ada"),
    ):
        told = items.json("list", *options)
        assert told == asked("GET", f"/v1/items{query}")
    reset = items.json("reset", "a")
    assert reset == asked("GET", "/v1/items/a")
