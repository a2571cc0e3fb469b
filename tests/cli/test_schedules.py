"""`headgate schedule …`: what is listed, planned, run, paused and told of the past."""

import pytest

from headgate import App
from headgate.toolkit.commands.loading import FAILED, USAGE
from tests.cli.conftest import Cli, Use

APP = """
import headgate

class Notes:
    name = "notes"
    budget = headgate.Budget("notes", [headgate.Limit(2, per="day")])

    async def read(self, ctx):
        return headgate.Chunk(records=[])

app = headgate.App(
    "sqlite:///jobs.db",
    syncs=[headgate.Sync(name="notes", source=Notes())],
    schedules=[
        headgate.Schedule(name="nightly", sync="notes", cron="0 2 * * *", tz="Europe/Berlin"),
        headgate.Schedule(name="fresh", sync="notes", fresh_within="24h", active_within=None),
    ],
)
"""


@pytest.fixture
def schedule(headgate: Cli) -> Cli:
    """Runs `headgate schedule …`."""
    return headgate.of("schedule")


@pytest.fixture
def users(in_app: Use) -> None:
    """Three users, of whom one is paused."""

    async def come(app: App) -> None:
        for name in ("ada", "bob", "cleo"):
            await app.users.seen(name)
        await app.users.pause("cleo", by="support")

    in_app(come)


def test_schedules_are_listed_with_what_happens_next(schedule: Cli) -> None:
    lines = [line.split("\t") for line in schedule("list").stdout.splitlines()]

    assert lines == [
        [
            "nightly",
            "notes",
            "At 02:00 every day",
            "Europe/Berlin",
            "It begins when a worker starts.",
        ],
        ["fresh", "notes", "Nobody's data is older than 1d", "", "It begins when a worker starts."],
    ]
    assert [each["name"] for each in schedule.json("list")["data"]] == ["nightly", "fresh"]


def test_a_schedule_is_shown_with_its_next_ticks(schedule: Cli, users: None) -> None:
    schedule("run", "nightly")
    told = " ".join(schedule("show", "nightly", "--runs", "2").stdout.split())

    assert "notes (since, hot)" in told
    assert "At 02:00 every day (0 2 * * *, Europe/Berlin)" in told
    assert "seen within 30d" in told and "2m" in told
    assert "(manual, asked for by command line): 2 queued, 1 skipped" in told
    shown = schedule.json("show", "nightly")
    assert len(shown["next_runs"]) == 5
    assert shown["ticks"][0]["queued"] == 2
    assert "everybody" in schedule("show", "fresh").stdout


def test_a_dry_run_shows_the_plan_and_starts_nothing(
    schedule: Cli, users: None, in_app: Use
) -> None:
    told = schedule("run", "nightly", "--dry-run").stdout.splitlines()

    assert told[0].endswith("2 jobs for 3 connections")
    assert told[1:3] == ["skipped: user_paused 1", "requests: 2 needed, 2 allowed"]
    assert [line.split("\t")[1] for line in told[3:5]] == ["ada", "bob"]
    assert told[5] == "cleo\tcleo\tthe user is paused: resume the user"
    plan = schedule.json("plan", "nightly")
    assert [each["user_id"] for each in plan["starts"]] == ["ada", "bob"]
    assert in_app(lambda app: app.jobs.list()) == []


def test_a_long_plan_is_cut_for_people(schedule: Cli, users: None) -> None:
    told = schedule("plan", "nightly", "--limit", "1")

    assert "1 more user is not listed: --limit" in told.stderr
    assert "\tbob\t" not in told.stdout


def test_a_goal_says_who_is_stale_and_what_it_would_take(schedule: Cli, users: None) -> None:
    told = schedule("plan", "fresh").stdout

    assert "not enough to keep the data of 2 users within 1d" in told
    assert "requests a day: 3 needed, 2 allowed" in told
    assert "too old: ada (last success: never)" in told


def test_a_run_now_tells_what_it_did_and_who_was_skipped(
    schedule: Cli, users: None, in_app: Use
) -> None:
    result = schedule("run", "nightly", "--by", "ada")

    assert "(manual, asked for by ada): 2 queued, 1 skipped" in result.stdout
    assert "headgate schedule skipped nightly" in result.stderr
    assert len(in_app(lambda app: app.jobs.list())) == 2
    assert schedule("skipped", "nightly").stdout == (
        "cleo\tcleo\tuser_paused\tthe user is paused: resume the user\n"
    )
    again = schedule.json("run", "nightly")
    assert (again["queued"], again["skipped"]) == (0, 3)
    page = schedule.json("skipped", "nightly", "--reason", "job_active")
    assert [each["user_id"] for each in page["data"]] == ["ada", "bob"]
    first = schedule("skipped", "nightly", "--limit", "2")
    assert "there are more: --after bob" in first.stderr
    rest = schedule("skipped", "nightly", "--after", "bob", "--tick", again["tick"])
    assert rest.stdout.startswith("cleo\t")


def test_nobody_was_skipped_before_anything_fired(schedule: Cli) -> None:
    assert "nobody was skipped" in schedule("skipped", "nightly").stderr
    missing = schedule("skipped", "nightly", "--tick", "2026-01-01T02:00")
    assert missing.exit_code == FAILED
    assert "has not fired at 2026-01-01T02:00:00+00:00" in missing.stderr
    assert schedule("skipped", "nightly", "--tick", "noon").exit_code == USAGE


def test_a_schedule_is_paused_with_who_and_why_and_resumed(schedule: Cli) -> None:
    paused = schedule("pause", "nightly", "--by", "ada", "--reason", "maintenance").stdout
    assert paused.startswith("nightly: It has been paused by ada since ")
    assert "maintenance" in paused
    resumed = schedule.json("resume", "nightly")
    assert (resumed["paused"], resumed["next_tick_at"] is None) == (None, False)
    assert schedule("resume", "nightly").stdout.startswith("nightly: It runs next at ")


def test_history_is_a_table_of_days(schedule: Cli, users: None, in_app: Use) -> None:
    schedule("run", "nightly")

    today = schedule("history", "nightly").stdout.splitlines()[0].split("\t")
    assert today[1:] == ["1", "2", "1", "0", "0", "0", "2"]
    found = schedule.json("history", "nightly", "--days", "2")
    assert (len(found["days"]), found["failing_users"]) == (2, [])


def test_users_who_keep_failing_are_named(schedule: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.ports.schedules import UserFailures
    from headgate.store.sql.schedules.store import SqlSchedules

    async def failing(*_: object, **__: object) -> dict[str, list[UserFailures]]:
        return {"nightly": [UserFailures("eve", 3)]}

    monkeypatch.setattr(SqlSchedules, "failing_users", failing)
    told = schedule("history", "nightly")
    assert "eve: 3 jobs failed" in told.stdout
    assert "headgate job list --user USER" in told.stderr


def test_what_there_is_not_is_said_with_what_there_is(schedule: Cli) -> None:
    told = schedule("show", "weekly")

    assert told.exit_code == FAILED
    assert "there is no schedule 'weekly'; there are: nightly, fresh" in told.stderr
