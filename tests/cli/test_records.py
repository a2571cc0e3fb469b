"""`headgate records …`: what was imported, in a table, as JSON, by key, and exported whole."""

import csv
import io
import json
import re
from datetime import date

import pytest
from rich.console import Console

from headgate import App
from headgate.toolkit.commands import output
from headgate.toolkit.commands.loading import FAILED, USAGE
from tests.cli.conftest import Cli, Use

APP = """
import headgate

class Watch:
    name = "watch"
    async def read(self, ctx):
        steps = {"ada": 4000, "bob": 9}[ctx.user_id]
        return headgate.Chunk(records=[
            headgate.Record(str(ctx.day), {"steps": steps + ctx.day.day, "note": "[b]=1+1\\n,"})
        ])

class Shelf:
    name, title = "shelf", "The Shelf"
    async def write(self, batch):
        return headgate.WriteResult()

modes = [headgate.Mode.HISTORY]
app = headgate.App(
    "sqlite:///jobs.db",
    syncs=[
        headgate.Sync(name="steps", source=Watch(), modes=modes),
        headgate.Sync(name="away", source=Watch(), modes=modes, destination=Shelf()),
    ],
)
"""
DAYS = ["2025-01-01", "2025-01-02", "2025-01-03"]


@pytest.fixture
def records(headgate: Cli, in_app: Use) -> Cli:
    """Runs `headgate records …` where two users' days were imported."""
    in_app(_import)
    return headgate.of("records")


async def _import(app: App) -> None:
    supervisor = app.supervisor()
    await supervisor.start()
    start, end = date.fromisoformat(DAYS[0]), date.fromisoformat(DAYS[-1])
    for user in ("ada", "bob"):
        submitted = await app.jobs.submit(
            "steps",
            user_id=user,
            mode="history",
            start_date=start,
            end_date=end,
        )
        while not (await app.jobs.get(submitted.job.id)).ended:
            await app.clock.sleep(0.01)
    await supervisor.stop()


def listed(records: Cli, *more: str) -> list[tuple[str, str]]:
    page = records.json("list", "steps", *more)
    return [(each["user_id"], each["key"]) for each in page["data"]]


def test_records_are_listed_filtered_and_paged(records: Cli) -> None:
    every = [(user, day) for user in ("ada", "bob") for day in DAYS]
    assert listed(records) == every
    assert listed(records, "--user", "bob") == every[3:]
    assert listed(records, "--connection", "ada", "--key-prefix", "2025-01-02") == [every[1]]
    assert listed(records, "--until", "2020-01-01T00:00:00Z") == []
    assert listed(records, "--since", "2020-01-01T00:00:00Z") == every
    first = records.json("list", "steps", "--limit", "4")
    cursor = first["next_cursor"]
    assert len(first["data"]) == 4 and cursor
    assert listed(records, "--after", cursor) == every[4:]
    told = records("list", "steps", "--limit", "4")
    assert f"there are more: --after {cursor}" in told.stderr
    row = told.stdout.splitlines()[0].split("\t")
    assert row[:3] == [DAYS[0], "ada", "ada"]
    assert json.loads(row[4]) == {"steps": 4001, "note": "[b]=1+1\n,"}


def test_a_record_is_shown_whole(records: Cli) -> None:
    told = records("show", "steps", DAYS[0], "--user", "ada")
    assert told.exit_code == 0, told.output
    assert '"steps": 4001' in told.stdout and "connection" in told.stdout
    shown = records.json("show", "steps", DAYS[0], "--user", "ada")
    assert shown["data"]["steps"] == 4001
    several = records("show", "steps", DAYS[0])
    assert several.exit_code == USAGE and "ada, bob" in several.stderr
    missing = records("show", "steps", "1999-01-01")
    assert missing.exit_code == FAILED
    assert "see: headgate records list steps" in missing.stderr


def test_all_are_exported_as_lines_and_as_a_table(records: Cli) -> None:
    lines = records("export", "steps")
    assert lines.exit_code == 0, lines.output
    got = [json.loads(line) for line in lines.stdout.splitlines()]
    assert [(each["user_id"], each["key"]) for each in got] == listed(records)
    table = records("export", "steps", "--format", "csv", "--user", "ada")
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    assert [(row["key"], row["data.steps"], row["data.note"]) for row in rows] == [
        (day, str(4001 + number), "[b]=1+1\n,") for number, day in enumerate(DAYS)
    ]


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_the_data_can_be_seen_on_every_terminal(
    records: Cli, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(output, "out", Console(width=columns, force_terminal=True, no_color=True))

    listed = re.sub(r"\x1b\[[0-9;]*m", "", records("list", "steps", "--limit", "2").stdout)

    assert listed.count('{"note":"[b]=1+1') == 2
    # Whole, unless a line has no room for it: `show` has all of it.
    assert listed.count('"steps":4001}') == (columns > 40)
    assert listed.count("…") == (0 if columns > 40 else 2)
    assert all(len(line) <= columns for line in listed.splitlines())


def test_what_is_wrong_or_elsewhere_is_told(records: Cli) -> None:
    unknown = records("list", "typo")
    assert unknown.exit_code == FAILED and "the syncs are: steps, away" in unknown.stderr
    assert records("export", "typo").exit_code == FAILED
    wrong = records("list", "steps", "--after", "x")
    assert wrong.exit_code == USAGE and "after: is not a `next_cursor`" in wrong.stderr
    assert records("list", "steps", "--since", "yesterday").exit_code == USAGE
    assert "no records of steps match" in records("list", "steps", "--user", "eve").stderr
    for command in ("list", "export"):
        away = records(command, "away")
        assert away.exit_code == 0 and away.stdout == ""
        assert "The records of away are written to The Shelf, and not stored here." in away.stderr
