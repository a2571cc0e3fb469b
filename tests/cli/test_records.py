"""`headgate records …`: what was imported, in a table, as JSON, by key, and exported whole."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from headgate.base import event_loop
from headgate.cli.main import cli
from headgate.toolkit.commands import output
from headgate.toolkit.commands.loading import FAILED, USAGE
from headgate.toolkit.commands.loading import load_app as load

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
    "sqlite:///steps.db",
    syncs=[
        headgate.Sync(name="steps", source=Watch(), modes=modes),
        headgate.Sync(name="away", source=Watch(), modes=modes, destination=Shelf()),
    ],
)
"""
DAYS = ["2025-01-01", "2025-01-02", "2025-01-03"]

Run = Callable[..., Result]


@pytest.fixture
def headgate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line where two users' days were imported."""
    module = f"cli_app_{abs(hash(tmp_path))}"
    (tmp_path / f"{module}.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HEADGATE_APP", f"{module}:app")
    event_loop.run(_import(load(None, None, needs_syncs=True)))
    runner = CliRunner()
    return lambda *arguments: runner.invoke(cli, ["records", *arguments])


async def _import(app: Any) -> None:
    async with app:
        supervisor = app.supervisor()
        await supervisor.start()
        for user in ("ada", "bob"):
            days = {"start": _day(DAYS[0]), "end": _day(DAYS[-1])}
            submitted = await app.jobs.submit(
                "steps", user_id=user, connection_id=f"{user}-1", mode="history", **days
            )
            while not (await app.jobs.get(submitted.job.id)).ended:
                await app.clock.sleep(0.01)
        await supervisor.stop()


def _day(text: str) -> Any:
    from datetime import date

    return date.fromisoformat(text)


def listed(headgate: Run, *more: str) -> list[tuple[str, str]]:
    result = headgate("list", "steps", "--json", *more)
    assert result.exit_code == 0, result.output
    return [(each["user_id"], each["key"]) for each in json.loads(result.stdout)["data"]]


def test_records_are_listed_filtered_and_paged(headgate: Run) -> None:
    every = [(user, day) for user in ("ada", "bob") for day in DAYS]
    assert listed(headgate) == every
    assert listed(headgate, "--user", "bob") == every[3:]
    assert listed(headgate, "--connection", "ada-1", "--key-prefix", "2025-01-02") == [every[1]]
    assert listed(headgate, "--until", "2020-01-01T00:00:00Z") == []
    assert listed(headgate, "--since", "2020-01-01T00:00:00Z") == every
    first = json.loads(headgate("list", "steps", "--limit", "4", "--json").stdout)
    cursor = first["next_cursor"]
    assert len(first["data"]) == 4 and cursor
    assert listed(headgate, "--after", cursor) == every[4:]
    told = headgate("list", "steps", "--limit", "4")
    assert f"there are more: --after {cursor}" in told.stderr
    row = told.stdout.splitlines()[0].split("\t")
    assert row[:3] == [DAYS[0], "ada", "ada-1"]
    assert json.loads(row[4]) == {"steps": 4001, "note": "[b]=1+1\n,"}


def test_a_record_is_shown_whole(headgate: Run) -> None:
    told = headgate("show", "steps", DAYS[0], "--user", "ada")
    assert told.exit_code == 0, told.output
    assert '"steps": 4001' in told.stdout and "ada-1" in told.stdout
    shown = json.loads(headgate("show", "steps", DAYS[0], "--user", "ada", "--json").stdout)
    assert shown["data"]["steps"] == 4001
    several = headgate("show", "steps", DAYS[0])
    assert several.exit_code == USAGE and "ada-1, bob-1" in several.stderr
    missing = headgate("show", "steps", "1999-01-01")
    assert missing.exit_code == FAILED
    assert "see: headgate records list steps" in missing.stderr


def test_all_are_exported_as_lines_and_as_a_table(headgate: Run) -> None:
    lines = headgate("export", "steps")
    assert lines.exit_code == 0, lines.output
    got = [json.loads(line) for line in lines.stdout.splitlines()]
    assert [(each["user_id"], each["key"]) for each in got] == listed(headgate)
    table = headgate("export", "steps", "--format", "csv", "--user", "ada")
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    assert [(row["key"], row["data.steps"], row["data.note"]) for row in rows] == [
        (day, str(4001 + number), "[b]=1+1\n,") for number, day in enumerate(DAYS)
    ]


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_the_data_can_be_seen_on_every_terminal(
    headgate: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(output, "out", Console(width=columns, force_terminal=True, no_color=True))

    listed = re.sub(r"\x1b\[[0-9;]*m", "", headgate("list", "steps", "--limit", "2").stdout)

    assert listed.count('{"note":"[b]=1+1') == 2
    # Whole, unless a line has no room for it: `show` has all of it.
    assert listed.count('"steps":4001}') == (columns > 40)
    assert listed.count("…") == (0 if columns > 40 else 2)
    assert all(len(line) <= columns for line in listed.splitlines())


def test_what_is_wrong_or_elsewhere_is_told(headgate: Run) -> None:
    unknown = headgate("list", "typo")
    assert unknown.exit_code == FAILED and "the syncs are: steps, away" in unknown.stderr
    assert headgate("export", "typo").exit_code == FAILED
    wrong = headgate("list", "steps", "--after", "x")
    assert wrong.exit_code == USAGE and "after: is not a `next_cursor`" in wrong.stderr
    assert headgate("list", "steps", "--since", "yesterday").exit_code == USAGE
    assert "no records of steps match" in headgate("list", "steps", "--user", "eve").stderr
    for command in ("list", "export"):
        away = headgate(command, "away")
        assert away.exit_code == 0 and away.stdout == ""
        assert "The records of away are written to The Shelf, and not stored here." in away.stderr
