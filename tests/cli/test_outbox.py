"""`headgate outbox …` without a network: what is listed, shown, retried, replayed and refused."""

import json
from pathlib import Path

import pytest

from headgate import App
from headgate.model.delivery import reject, succeed
from headgate.toolkit.commands.loading import CONFIG, DECLINED, FAILED, USAGE
from tests.cli.conftest import Cli, Use

APP = """
import headgate
from datetime import timedelta
from headgate.base.secret import Secret

def target(name, **more):
    return headgate.Target(name=name, url=f"https://{name}.example", key=Secret("hunter2"), **more)

app = headgate.App(
    "sqlite:///jobs.db",
    topics=[headgate.Topic(name="orders", path="/orders", targets=("local",))],
    targets=[target("local"), target("staging"), target("production", protected=True)],
    worker=headgate.WorkerSettings(outbox=headgate.OutboxSettings(keep_sent=timedelta(days=7))),
)
"""


@pytest.fixture
def outbox(headgate: Cli) -> Cli:
    """Runs `headgate outbox …`."""
    return headgate.of("outbox")


async def a_few(app: App) -> list[str]:
    """A message of each of two users, to two targets; the ids of their deliveries to local."""
    made = [
        await app.outbox.submit(
            "orders",
            {"number": number},
            key=f"order-{number}",
            run_id=f"run-{number}",
            user_id=user,
            targets=["local", "staging"],
        )
        for number, user in enumerate(["ada", "bob"])
    ]
    return [f"{message_id}.local" for message_id in made]


async def kill(app: App, target: str) -> None:
    """Let the target have refused all that waits for it, for good."""
    drainer = app.outbox.drainer
    for each in await drainer.store.claim(
        target, ["orders"], limit=100, lease=drainer.claims.lease, worker="w"
    ):
        await drainer.store.settle(reject(each.delivery, error="it answered 422: no such order"))


async def accept_one(app: App, run: str) -> None:
    """Let every target have accepted the message of that run."""
    drainer = app.outbox.drainer
    for target in ("local", "staging"):
        [due] = await drainer.store.claim(
            target, ["orders"], run_id=run, limit=1, lease=drainer.claims.lease, worker="w"
        )
        await drainer.store.settle(succeed(due.delivery))


def test_a_list_is_filtered_and_told_line_by_line(outbox: Cli, in_app: Use) -> None:
    ada, bob = in_app(a_few)

    def listed(*more: str) -> list[str]:
        return [line.split("\t")[0] for line in outbox("list", *more).stdout.splitlines()]

    assert len(listed()) == 4
    assert listed("--env", "local") == [ada, bob]
    assert listed("--env", "local", "--user", "bob") == [bob]
    assert listed("--env", "local", "--run-id", "run-0") == [ada]
    assert listed("--state", "dead", "--state", "sent") == []
    assert listed("--topic", "others") == []
    assert listed("--env", "local", "--after", ada) == [bob]
    assert "no deliveries" in outbox("list", "--user", "eve").stderr
    first = outbox("list", "--env", "local", "--limit", "1")
    assert f"there are more: --after {ada}" in first.stderr
    page = outbox.json("list", "--env", "local", "--limit", "1")
    assert page["next_cursor"] == ada
    row = outbox("list", "--env", "local").stdout.splitlines()[0].split("\t")
    assert row[1:5] == ["local", "pending", "run-0", "0"]


def test_a_list_counts_by_target_and_state(outbox: Cli, in_app: Use) -> None:
    in_app(a_few)
    in_app(lambda app: kill(app, "local"))

    said = outbox("list").stderr

    assert "✘ dead 2" in said and "○ pending 2" in said


def test_a_stopped_target_is_told_above_all_that_wait_for_it(outbox: Cli, in_app: Use) -> None:
    in_app(a_few)
    in_app(lambda app: app.outbox.drainer.store.stop_target("local", "it answered 403: no"))

    listed = outbox("list")
    assert listed.stderr.count("stopped local gets nothing since") == 1
    assert "it answered 403: no" in listed.stderr
    assert "\nstopped" not in outbox("list", "--env", "staging").stderr
    page = outbox.json("list", "--env", "local")
    assert {"headgate outbox resume --env local"} == {
        each["message"].partition("then run: ")[2] for each in page["data"]
    }
    planned = outbox.json("drain", "--env", "local", "--dry-run")
    assert planned["data"][0]["stopped"] == "it answered 403: no"


def test_one_delivery_is_shown_in_words_and_as_json(outbox: Cli, in_app: Use) -> None:
    ada, _ = in_app(a_few)

    shown = outbox("show", ada)

    assert shown.exit_code == 0
    for said in (ada, "○ pending", "It is not delivered yet.", "order-0", "run-0", "12 bytes"):
        assert said in shown.stdout
    assert '{\n  "number": 0\n}' in shown.stdout
    told = outbox.json("show", ada)
    [listed] = outbox.json("list", "--env", "local", "--user", "ada")["data"]
    assert told["delivery"] == listed
    assert (told["message"]["key"], told["message"]["payload"]) == ("order-0", {"number": 0})


def test_a_list_of_a_target_that_there_is_not_is_refused(outbox: Cli) -> None:
    result = outbox("list", "--env", "typo")
    assert result.exit_code == 2
    assert "no target is called 'typo'" in result.stderr


def test_what_is_not_there_is_told(outbox: Cli) -> None:
    for command in ("show", "retry"):
        told = outbox(command, "nothing")
        assert (told.exit_code, "there is no delivery 'nothing'" in told.stderr) == (FAILED, True)


def test_deliveries_are_retried_from_a_pipe(outbox: Cli, in_app: Use) -> None:
    in_app(a_few)
    in_app(lambda app: kill(app, "local"))
    dead = outbox("list", "--state", "dead").stdout
    ids = [line.split("\t")[0] for line in dead.splitlines()]

    retried = outbox("retry", "-", stdin="\n".join(ids))

    assert retried.stdout.splitlines() == [f"{one} is pending again" for one in ids]
    empty = outbox("retry", "-")
    assert (empty.exit_code, "stdin contained no" in empty.stderr) == (USAGE, True)


def test_all_that_match_are_retried_only_if_that_is_meant(outbox: Cli, in_app: Use) -> None:
    in_app(a_few)
    in_app(lambda app: kill(app, "local"))
    in_app(lambda app: kill(app, "staging"))
    all_of = ("retry", "--state", "dead", "--env", "local")

    # Nobody is asked where there is no terminal.
    refused = outbox(*all_of, stdin="y\n")
    assert refused.exit_code == DECLINED
    assert "2 dead deliveries to local would be sent again; add --yes" in refused.stderr
    one = outbox(*all_of, "--run-id", "run-1", "--yes")
    assert one.stdout == "to be sent to local again: 1 dead delivery\n"
    rest = outbox.json(*all_of, "--yes")
    assert rest == {"target": "local", "state": "dead", "retried": 1}
    assert outbox.json(*all_of)["retried"] == 0
    assert outbox("list", "--env", "staging").stdout.count("dead") == 2
    waiting = outbox("retry", "--state", "pending", "--env", "local", "--yes")
    assert waiting.stdout == "to be sent to local again: 2 pending deliveries\n"


def test_a_drain_tells_what_another_worker_has_claimed(outbox: Cli, in_app: Use) -> None:
    in_app(a_few)

    async def take(app: App) -> None:
        drainer = app.outbox.drainer
        lease = drainer.claims.lease
        await drainer.store.claim("local", ["orders"], limit=9, lease=lease, worker="w")

    in_app(take)

    ended = outbox("drain", "--env", "local")

    assert ended.exit_code == 0, ended.output
    assert "local: 2 deliveries are claimed by another worker right now" in ended.stderr
    [told] = outbox.json("drain", "--env", "local")["data"]
    assert (told["waiting"], told["next_attempt_at"], told["claimed"]) == (0, None, 2)


def test_a_replay_begins_at_a_day_or_a_time_with_or_without_a_zone(
    outbox: Cli, in_app: Use
) -> None:
    in_app(a_few)
    named = ("replay", "--env", "production", "--confirm", "production", "--dry-run", "--json")

    def count(since: str) -> int:
        told: dict[str, int] = json.loads(outbox(*named, "--since", since).stdout)
        return told["messages"]

    for since in ("2020-01-01", "2020-01-01T10:00", "2020-01-01T10:00:00+02:00"):
        assert count(since) == 2
    assert count("2100-01-01T00:00Z") == 0


def test_a_purge_goes_by_the_applications_setting(outbox: Cli, in_app: Use) -> None:
    in_app(a_few)

    assert outbox("purge").stdout == (
        "purged: 0 messages that all targets accepted over 7 days ago\n"
    )
    assert outbox.json("purge", "--older-than", "0.5") == {"messages": 0, "older_than_days": 0.5}


def test_a_purge_deletes_what_was_sent_long_enough_ago(outbox: Cli, in_app: Use) -> None:
    _, bob = in_app(a_few)
    in_app(lambda app: accept_one(app, "run-0"))

    assert outbox.json("purge") == {"messages": 0, "older_than_days": 7.0}
    assert len(outbox("list").stdout.splitlines()) == 4
    assert outbox("purge", "--older-than", "0").stdout.startswith("purged: 1 message that all")
    left = [line.split("\t")[0] for line in outbox("list").stdout.splitlines()]
    assert left == [bob, bob.replace(".local", ".staging")]


def test_dead_ones_are_purged_only_if_that_is_meant(outbox: Cli, in_app: Use) -> None:
    in_app(a_few)
    in_app(lambda app: kill(app, "local"))
    in_app(lambda app: kill(app, "staging"))
    dead = ("purge", "--dead", "--older-than", "0")

    # Nobody is asked where there is no terminal.
    refused = outbox(*dead, "--env", "local", stdin="y\n")
    assert refused.exit_code == DECLINED
    assert (
        "2 messages that local rejected over 0 days ago would be deleted for good; add --yes"
        in refused.stderr
    )
    assert outbox("purge", "--dead", "--yes").stdout == (
        "purged: 0 messages that a target rejected over 7 days ago\n"
    )
    assert outbox("list").stdout.count("dead") == 4
    assert outbox.json(*dead, "--env", "local", "--yes") == {
        "messages": 2,
        "older_than_days": 0.0,
        "dead": True,
    }
    assert outbox("list").stdout == ""


def test_a_purge_of_one_target_or_with_yes_is_for_dead_ones_alone(outbox: Cli) -> None:
    for option in (("--env", "local"), ("--yes",)):
        told = outbox("purge", *option)
        assert told.exit_code == USAGE
        assert f"{option[0]}: only with --dead" in told.stderr
    typo = outbox("purge", "--dead", "--env", "typo", "--yes")
    assert (typo.exit_code, "no target is called 'typo'" in typo.stderr) == (USAGE, True)


# ---- an application that the settings make -----------------------------------------------------


@pytest.mark.parametrize("command", ["drain", "worker", "replay --env local --since 2026-01-01"])
def test_without_a_target_a_command_says_how_to_configure_one(
    outbox: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.delenv("HEADGATE_APP")
    monkeypatch.setenv("HEADGATE_SYSTEMS", "")

    told = outbox(*command.split())

    assert told.exit_code == USAGE
    assert "[targets.local] with url =" in told.stderr and "headgate.toml" in told.stderr
    # Nothing was opened for it.
    assert not (tmp_path / "headgate.db").exists()


def test_a_target_of_the_settings_is_known_and_a_wrong_one_is_refused_by_name(
    outbox: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADGATE_APP")
    monkeypatch.setenv("HEADGATE_SYSTEMS", "")
    monkeypatch.setenv("HEADGATE_DATABASE", "sqlite:///jobs.db")
    right = {"url": "https://api.example.com", "key": "hunter2"}
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps({"local": right}))
    assert outbox("resume", "--env", "local").stdout == "local had not stopped\n"
    assert "topics: this app declares none" in outbox("drain").stderr

    for wrong, told in (
        ({"url": "https://api.example.com", "api_key": "hunter2"}, "targets.local.api_key: "),
        ({"key": "hunter2"}, "targets.local.url: "),
        ({"url": "https://a:hunter2@b.example", "key": "hunter2"}, "target local: url: "),
    ):
        monkeypatch.setenv("HEADGATE_TARGETS", json.dumps({"local": wrong}))
        ended = outbox("list")
        assert (ended.exit_code, told in ended.stderr) == (CONFIG, True), ended.stderr
        assert "hunter2" not in ended.output
