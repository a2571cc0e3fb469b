"""`headgate backfill …`: data on stdout, messages on stderr, exit codes as promised."""

import json
import re
from typing import Any

import pytest

from tests.cli.conftest import Cli

APP = """
import headgate

class Watch:
    name = "watch"
    title = "Watch"
    async def read(self, ctx):
        if ctx.options.get("broken") or (ctx.user_id == "eve"):
            raise headgate.Terminal("no such watch")
        return headgate.Chunk(records=[headgate.Record(str(ctx.day), {"steps": 1})])

app = headgate.App(
    "sqlite:///jobs.db",
    syncs=[
        headgate.Sync(
            name="history",
            source=Watch(),
            day_costs=[headgate.DayCost(provider="watch", least=1, most=2)],
        )
    ],
    entitlement=lambda plan, mode: "Not on this plan." if plan == "free" else None,
)
"""

RANGE = ("--from", "2025-01-01", "--to", "2025-01-10")


def start(headgate: Cli, *more: str, user: str = "ada") -> Any:
    return headgate.json("backfill", "start", "history", "--user", user, *RANGE, *more)


def test_start_and_status_tell_the_same_document(headgate: Cli) -> None:
    told = start(headgate)

    assert (told["state"], told["percent"], told["progress"]["total"]) == ("pending", 0.0, 10)
    assert told["message"].startswith("Waiting for a worker: no worker that can do this is running")
    again = headgate("backfill", "status", told["id"], "--json")
    assert json.loads(again.stdout) == told


def test_a_person_is_told_what_comes_next(headgate: Cli) -> None:
    result = headgate("backfill", "start", "history", "--user", "ada", *RANGE)

    assert result.exit_code == 0
    assert "○ pending" in result.stdout
    assert re.search(r"^sync +history \(watch\) *$", result.stdout, re.MULTILINE)
    assert "0/10 days · 0 %" in result.stdout
    assert "next: headgate backfill status job_" in result.stderr


def test_a_dry_run_starts_nothing(headgate: Cli) -> None:
    given = ("backfill", "start", "history", "--user", "ada", *RANGE, "--dry-run")

    result = headgate(*given)
    assert "10 days to read\n10 to 20 requests to watch\n" in result.stdout
    told = headgate.json(*given)
    assert (told["days"], told["days_held"]) == (10, 0)
    assert headgate.json("backfill", "list")["data"] == []


def test_several_are_steered_at_once_from_the_line_or_from_stdin(headgate: Cli) -> None:
    ids = [start(headgate, user=user)["id"] for user in ("ada", "bob")]

    paused = headgate("backfill", "pause", *ids)
    assert paused.stdout.count("Paused until it is resumed.") == 2
    resumed = headgate("backfill", "resume", "-", "--json", stdin="\n".join(ids))
    assert [json.loads(line)["state"] for line in resumed.stdout.splitlines()] == ["pending"] * 2
    headgate("backfill", "cancel", ids[0])
    listed = headgate.json("backfill", "list", "--state", "cancelled")
    assert [job["id"] for job in listed["data"]] == [ids[0]]
    refused = headgate("backfill", "retry", ids[0])
    assert refused.exit_code == 1
    assert "is cancelled and cannot be retried" in refused.stderr
    assert headgate("backfill", "retry", "-", stdin="").exit_code == 2


def test_another_user_s_is_not_there(headgate: Cli) -> None:
    job_id = start(headgate)["id"]

    for command in ("status", "pause", "cancel"):
        result = headgate("backfill", command, job_id, "--user", "eve")
        assert result.exit_code == 1
        assert "there is no job" in result.stderr


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--from", "2025-02-30"), 2, "--from: '2025-02-30' is not a day"),
        (("--from", "2025-01-11"), 2, "--to: 2025-01-10 lies before the first day"),
        (("--reprocess", "some"), 2, "reprocess"),
    ],
)
def test_bad_input_names_the_field(
    headgate: Cli, more: tuple[str, ...], code: int, said: str
) -> None:
    result = headgate("backfill", "start", "history", "--user", "ada", *RANGE, *more)

    assert result.exit_code == code
    assert said in result.stderr


def test_watching_ends_when_its_time_is_up(headgate: Cli) -> None:
    # Nobody works here
    job_id = start(headgate)["id"]

    result = headgate("backfill", "status", job_id, "--watch", "--timeout", "0", "--json")

    assert result.exit_code == 8
    assert json.loads(result.stdout)["id"] == job_id
    shown = headgate("backfill", "status", job_id, "--watch", "--timeout", "0")
    assert shown.exit_code == 8
    assert "0/10 days · 0 %  Waiting for a worker: no worker that can do this" in shown.stderr


def test_a_list_tells_only_imports(headgate: Cli) -> None:
    job_id = start(headgate)["id"]
    headgate("job", "submit", "history", "--user", "bob")

    listed = headgate.json("backfill", "list")

    assert [job["id"] for job in listed["data"]] == [job_id]
    assert job_id in headgate("backfill", "list", "--user", "ada").stdout
    assert "no backfills" in headgate("backfill", "list", "--user", "nobody").stderr


def test_one_that_refuses_does_not_stop_the_others(headgate: Cli) -> None:
    job_id = start(headgate)["id"]

    result = headgate("backfill", "pause", "job_none", job_id)

    assert result.exit_code == 1
    assert "there is no job 'job_none'" in result.stderr
    assert f"{job_id}  Paused until it is resumed." in result.stdout


def test_names_that_look_like_markup_are_shown_as_they_are(headgate: Cli) -> None:
    result = headgate("backfill", "start", "history", "--user", "a[/b]", *RANGE)

    assert result.exit_code == 0
    assert re.search(r"^user +a\[/b\] *$", result.stdout, re.MULTILINE)
