"""`headgate connection …`, `user …` and `backfill link`: what people need around an import."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from headgate import App
from headgate.base.clock import SystemClock
from headgate.base.secret import Secret
from headgate.flow.connections.sealing import unseal
from headgate.secrets.keys import KeyRing
from headgate.secrets.links import Links
from tests.cli.conftest import Ask, Cli, Use
from tests.connecting import key_entries

APP = """
import headgate
from headgate.connectors import ApiToken
from headgate.connectors.strava import strava

class Activities(headgate.ApiSource):
    async def read(self, ctx):
        return headgate.Chunk()

class Notes:
    name = "notes"
    async def read(self, ctx):
        return headgate.Chunk()

graph = Activities("graph", base_url="https://graph.example", auth=ApiToken())
api = strava(client_id="1", client_secret=headgate.Secret("hush"))
app = headgate.App(
    "sqlite:///jobs.db",
    syncs=[
        headgate.Sync(name="activities", source=Activities(**api)),
        headgate.Sync(name="notes", source=Notes()),
        headgate.Sync(name="graph", source=graph),
    ],
)
"""

KEYS = ",".join(key_entries("k1"))


@pytest.fixture(autouse=True)
def set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys, and where the server is."""
    monkeypatch.setenv("HEADGATE_KEYS", KEYS)
    monkeypatch.setenv("HEADGATE_PUBLIC_URL", "https://sync.example/")


def links() -> Links:
    return Links(KeyRing.parse(Secret(KEYS)), SystemClock())


def test_a_link_to_connect_is_one_that_the_server_opens(headgate: Cli) -> None:
    told = headgate.json("connection", "link", "strava", "--user", "ada")

    path = told["url"].removeprefix("https://sync.example")
    opened = links().open_connect(path.removeprefix("/connect/"))
    assert (opened.source, opened.user_id, opened.connection_id) == ("strava", "ada", None)
    shown = headgate("connection", "link", "strava", "--user", "ada")
    assert shown.stdout.startswith("https://sync.example/connect/")
    assert shown.stdout.count("\n") == 1
    assert "next: open it" in shown.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("notes",), "SOURCE: 'notes' is not one that users connect to; there are: graph, strava"),
        (("graph",), "not on a page; use: headgate connection add graph --user ada"),
        (("strava", "--again", "conn_none"), "there is no connection 'conn_none'"),
    ],
)
def test_what_cannot_be_connected_gets_no_link(
    headgate: Cli, given: tuple[str, ...], said: str
) -> None:
    result = headgate("connection", "link", *given, "--user", "ada")

    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert result.stdout == ""


def test_what_is_not_there_is_said_so(headgate: Cli) -> None:
    assert "no connections" in headgate("connection", "list", "--user", "ada").stderr
    assert headgate.json("connection", "list", "--user", "ada") == {"data": [], "next_cursor": None}
    for command in ("pause", "resume", "remove"):
        result = headgate("connection", command, "conn_none", "--json")
        assert result.exit_code == 1
        assert "there is no connection" in json.loads(result.stdout)["error"]["message"]


RANGE = ("--from", "2024-01-01", "--to", "2024-01-02")
NOBODYS = ("--connection", "conn_none", "--user", "ada")


NOWHERE = [
    ("job", "submit", "activities", *NOBODYS),
    ("job", "submit", "graph", *NOBODYS),
    ("backfill", "start", "activities", *RANGE, *NOBODYS),
    ("backfill", "start", "activities", *RANGE, *NOBODYS, "--dry-run"),
    ("budget", "strava", "--connection", "conn_none"),
    ("budget", "--connection", "conn_none"),
    ("connection", "add", "graph", "--user", "ada", "--again", "conn_none"),
]


def test_a_connection_that_does_not_exist_is_refused_at_once(headgate: Cli) -> None:
    for given in NOWHERE:
        result = headgate(*given)

        assert (result.exit_code, given) == (1, given)
        assert "there is no connection 'conn_none'" in result.stderr, given
    assert headgate.json("job", "list")["data"] == []


def test_a_budget_is_that_of_the_connections_own_provider(headgate: Cli) -> None:
    added = headgate("connection", "add", "graph", "--user", "ada", "--json", stdin="t0ken")
    connection_id = json.loads(added.stdout)["id"]

    result = headgate("budget", "strava", "--connection", connection_id)

    assert result.exit_code == 2
    assert f"connection: {connection_id} is a connection to graph" in result.stderr


def test_a_connection_is_removed_after_a_yes_alone(headgate: Cli) -> None:
    made = headgate.json(*ADD, stdin=TOKEN)["id"]

    refused = headgate("connection", "remove", made[:-2], stdin="y\n")
    assert refused.exit_code == 3
    assert "would be deleted for good; add --yes" in refused.stderr
    assert made in headgate("connection", "list").stdout
    assert headgate("connection", "remove", made[:-2], "--yes").stdout == f"removed {made}\n"
    assert "no connections" in headgate("connection", "list").stderr


def test_a_token_is_read_from_a_private_file(headgate: Cli, tmp_path: Path) -> None:
    file = tmp_path / "token.txt"
    file.write_text(f"{TOKEN}\n", encoding="ascii")
    file.chmod(0o644)

    refused = headgate(*ADD, "--token-file", str(file), stdin="")
    assert refused.exit_code == 2 and "--token-file" in refused.stderr
    assert "chmod 600" in refused.stderr and TOKEN not in refused.output
    file.chmod(0o600)
    added = headgate(*ADD, "--token-file", str(file), stdin="")
    assert added.exit_code == 0 and TOKEN not in added.output


# ---- by a token --------------------------------------------------------------------------------

ADD = ("connection", "add", "graph", "--user", "ada")
TOKEN = "c4nary-h4nded-0ver"


def test_a_token_is_read_from_stdin_and_told_nowhere(
    headgate: Cli, in_app: Use, tmp_path: Path
) -> None:
    result = headgate(*ADD, "--account", "my-graph", "--json", stdin=f"  {TOKEN}\n")

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["source"], told["user_id"], told["state"]) == ("graph", "ada", "active")
    assert told["external_id"] == "my-graph"
    shown = headgate(*ADD, "--account", "my-graph", stdin=TOKEN)
    assert shown.stdout == f"{told['id']}  active  graph  ada  my-graph\n"
    assert TOKEN not in result.output + shown.output
    assert not [each for each in tmp_path.glob("jobs.db*") if TOKEN.encode() in each.read_bytes()]

    async def kept(app: App) -> str:
        credentials = app._runtime.credentials
        assert credentials is not None
        linked = await credentials.store.get_sealed(told["id"], user_id="ada")
        return unseal(credentials.vault, linked).access.reveal()

    assert in_app(kept) == TOKEN


def test_a_new_token_goes_to_the_connection_that_is_named(headgate: Cli) -> None:
    first = headgate.json(*ADD, stdin=TOKEN)["id"]

    again = headgate(*ADD, "--again", first, "--json", stdin="another")

    assert json.loads(again.stdout)["id"] == first
    listed = headgate.json("connection", "list", "--user", "ada")
    assert [each["id"] for each in listed["data"]] == [first]


#: What is connected, what is on stdin, and what is said of it.
NO_GOOD: list[tuple[tuple[str, ...], str | bytes, str]] = [
    (("graph",), "", "token: stdin was empty: pipe the token in"),
    (("graph",), " \n", "token: stdin was empty: pipe the token in"),
    (("graph",), f"{TOKEN}\nand more", "token: must be one line of printable ASCII"),
    (("graph",), f"{TOKEN}".encode() + b"\xff", "token: must be one line of printable ASCII"),
    (("graph",), TOKEN * 1000, "token: must have between 1 and 4,096"),
    (("notes",), TOKEN, "is not one that users connect to; there are: graph, strava"),
    (("strava",), TOKEN, "not with a token; use: headgate connection link strava --user ada"),
    (("graph", "--again", "conn_9"), TOKEN, "'conn_9'; see: headgate connection list --user"),
    (("graph", "--account", ""), TOKEN, "external_id: must not be empty"),
]


def test_what_cannot_be_connected_by_a_token_says_what_to_do(headgate: Cli) -> None:
    for given, stdin, said in NO_GOOD:
        result = headgate("connection", "add", *given, "--user", "ada", stdin=stdin)

        assert result.exit_code in (1, 2), given
        assert said in result.stderr
        assert TOKEN not in result.output
    assert headgate.json("connection", "list", "--user", "ada")["data"] == []


def test_no_option_takes_the_token_and_the_help_says_why(headgate: Cli) -> None:
    told = " ".join(headgate("connection", "add", "--help").stdout.split())

    assert "--token " not in told and "--token-file" in told
    assert "history" in told and "processes" in told


def test_in_a_terminal_the_token_is_asked_for_unseen(headgate: Cli, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [sys.executable, "-m", "headgate", *ADD, "--json"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    while b"token" not in seen:
        seen += os.read(ours, 1000)
    os.write(ours, f"{TOKEN}\n".encode())
    stdout, _ = command.communicate(timeout=30)
    try:
        seen += os.read(ours, 1000)
    except OSError:
        # The other end is closed, and there is nothing more to see.
        pass
    os.close(ours)

    assert command.returncode == 0, seen
    assert json.loads(stdout)["state"] == "active"
    assert TOKEN.encode() not in seen + stdout


# ---- as the API tells it -----------------------------------------------------------------------


def test_the_command_line_tells_connections_as_the_api_does(headgate: Cli, asked: Ask) -> None:
    added = headgate.json(*ADD, "--account", "one", stdin=TOKEN)
    headgate(*ADD, "--account", "two", stdin=TOKEN)
    path = f"/v1/connections/{added['id']}"
    assert added == asked("GET", path, user_id="ada")

    command = ("connection", "list", "--user", "ada")
    whole = headgate.json(*command)
    assert whole == asked("GET", "/v1/connections", user_id="ada")
    first = headgate.json(*command, "--limit", "1")
    assert first == asked("GET", "/v1/connections?limit=1", user_id="ada")
    rest = headgate.json(*command, "--after", first["next_cursor"])
    assert first["data"] + rest["data"] == whole["data"]
    people = headgate(*command, "--limit", "1")
    assert f"there are more: --after {first['next_cursor']}" in people.stderr

    paused = headgate.json("connection", "pause", added["id"])
    assert paused == asked("GET", path, user_id="ada")
    resumed = headgate.json("connection", "resume", added["id"])
    assert resumed == asked("GET", path, user_id="ada")
    assert (paused["state"], resumed["state"]) == ("paused", "active")


# ---- plans and progress ------------------------------------------------------------------------


def test_a_plan_is_given_and_shown(headgate: Cli) -> None:
    assert headgate("user", "plan", "ada").stdout == "ada: no plan\n"
    headgate("user", "plan", "ada", "premium")
    assert headgate.json("user", "plan", "ada") == {"user_id": "ada", "plan": "premium"}
    refused = headgate("user", "plan", "ada", "x" * 51)
    assert (refused.exit_code, "plan: must be 1 to 50" in refused.stderr) == (2, True)


def test_a_link_to_the_progress_page_is_one_that_the_server_opens(headgate: Cli) -> None:
    asked = ("--from", "2025-01-01", "--to", "2025-01-10", "--json")
    job = json.loads(headgate("backfill", "start", "notes", "--user", "ada", *asked).stdout)

    told = headgate.json("backfill", "link", job["id"])

    opened = links().open_progress(told["url"].removeprefix("https://sync.example/p/"))
    assert (opened.job_id, opened.user_id) == (job["id"], "ada")
    assert headgate("backfill", "link", job["id"], "--user", "eve").exit_code == 1


@pytest.mark.parametrize("command", ["job submit", "job submit --file -", "backfill start"])
def test_anothers_connection_is_found_by_no_command(
    headgate: Cli, in_app: Use, command: str
) -> None:
    async def connect(app: App) -> str:
        token = Secret("t")
        return (await app.connections.connect_with_token("graph", token, user_id="bob")).id

    theirs = in_app(connect)

    def submit(sync: str, connection: str) -> Result:
        if "--file" in command:
            line = {"sync": sync, "user_id": "ada", "connection_id": connection}
            return headgate(*command.split(), stdin=json.dumps(line))
        days = ("--from", "2025-01-01", "--to", "2025-01-02") if "backfill" in command else ()
        named = ("--user", "ada", "--connection", connection)
        return headgate(*command.split(), sync, *named, *days)

    at_graph, at_notes = submit("graph", theirs), submit("notes", "bob")

    assert at_graph.exit_code == 1
    assert f"there is no connection '{theirs}'" in at_graph.stderr
    assert at_notes.exit_code == (1 if "--file" in command else 2)
    assert "users have no connections to notes: leave it out" in at_notes.stderr
    assert headgate.json("job", "list")["data"] == []
