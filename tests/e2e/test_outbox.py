"""`headgate outbox …` in real processes, against a backend that is served on this machine."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate_sandbox.kit.faults import Fault, FaultKind
from tests.e2e.outbox_shop import Shop, open_shop
from tests.e2e.processes import started
from tests.processes import Process


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop without messages."""
    with open_shop(tmp_path, without_settings()) as opened:
        yield opened


def without_settings() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}


def test_a_drain_sends_what_waits_and_tells_the_counts(shop: Shop) -> None:
    shop.enqueue(3)

    drained = shop.run("drain")

    assert (drained.code, drained.stdout) == (
        0,
        "local: processed 3 · sent 3 · failed 0 · dead 0\n"
        "staging: processed 0 · sent 0 · failed 0 · dead 0\n",
    )
    # The start and the end are logged, the end with the counts.
    logged = [line for line in drained.stderr.splitlines() if "target=local" in line]
    assert "drain_began" in logged[0] and "drain_ended" in logged[-1]
    assert "processed=3" in logged[-1] and "sent=3" in logged[-1]
    assert (shop.accepted("local"), shop.states()) == (3, {"sent": 3})
    assert shop.json("drain")["data"][0]["processed"] == 0


def test_a_drain_sends_of_one_run_and_only_so_many(shop: Shop) -> None:
    shop.enqueue(3, run="run-1")
    shop.enqueue(2, run="run-2")

    [plan] = shop.json("drain", "--env", "local", "--run-id", "run-2", "--dry-run")["data"]
    assert (plan["due"], plan["url"]) == (2, f"{shop.url}/local")
    [result] = shop.json("drain", "--env", "local", "--run-id", "run-2")["data"]
    assert (result["sent"], shop.accepted("local")) == (2, 2)
    [result] = shop.json("drain", "--env", "local", "--limit", "2")["data"]
    assert (result["sent"], result["more"], shop.accepted("local")) == (2, True, 4)


def test_a_dry_run_sends_and_changes_nothing(shop: Shop) -> None:
    shop.enqueue(3)
    before = shop.json("list")

    planned = shop.run("drain", "--dry-run")

    assert planned.code == 0
    assert planned.stdout.splitlines()[0] == f"local: 3 would be sent to {shop.url}/local"
    assert "nothing was sent" in planned.stderr
    assert shop.json("list") == before
    assert shop.arrivals() == 0


def test_a_wrong_key_stops_the_target_and_is_never_told(shop: Shop) -> None:
    shop.enqueue(6)
    shop.key_file("local.key", "not-the-right-key")

    drained = shop.run("drain", "--env", "local")

    assert drained.code == 1
    assert "local has stopped: it answered 401: the API key is missing or wrong" in drained.stderr
    assert shop.states() == {"pending": 6}
    listed = shop.run("list")
    assert "stopped local gets nothing since" in listed.stderr
    assert "headgate outbox resume --env local" in listed.stderr
    assert "not-the-right-key" not in str((drained, listed, shop.json("list")))

    # It stays stopped, and a drain says so again; with the right key a drain goes on by itself.
    assert shop.run("drain", "--env", "local").code == 1
    shop.key_file("local.key", shop.backend.api_key("local"))
    assert shop.json("drain", "--env", "local")["data"][0]["sent"] == 6
    assert "\nstopped" not in shop.run("list").stderr


def test_a_stopped_target_is_resumed_by_name(shop: Shop) -> None:
    shop.enqueue(1)
    shop.key_file("local.key", "wrong")
    shop.run("drain", "--env", "local")

    assert shop.json("resume", "--env", "local") == {"target": "local", "resumed": True}
    assert shop.run("resume", "--env", "local").stdout == "local had not stopped\n"
    assert shop.run("resume", "--env", "nowhere").code == 2


#: What is refused, with which code, and what is told.
REFUSED = [
    ("drain --env production", 3, "name it twice, --env production --confirm production"),
    ("drain --env production --dry-run", 3, "--env production --confirm production"),
    ("replay --env production --since 2020-01-01", 3, "--env production --confirm production"),
    ("worker --env production", 3, "--env production --confirm production"),
    (
        "drain --env local --api-url URL/local --api-key-file production.key",
        2,
        "--api-url: has the same host and port as production, which is protected",
    ),
    ("drain --api-key hunter2", 2, "--api-key-file"),
    ("drain --api-url URL --api-key-file local.key", 2, "--env: name the target"),
    ("replay --env staging --since yesterday", 2, "--since: 'yesterday' is not a time"),
    ("retry", 2, "either name deliveries, or choose all that match"),
    ("retry --state failed", 2, "either name deliveries, or choose all that match"),
    ("retry a --state failed --env local", 2, "either name deliveries, or choose all"),
    ("retry --state sent --env local", 2, "--state: 'sent' is not one of"),
]


def test_what_must_not_be_is_refused_before_anything_is_sent(shop: Shop) -> None:
    for target in ("local", "production"):
        shop.enqueue(1, to=target)
    before = shop.json("list")

    for command, code, told in REFUSED:
        ended = shop.run(*command.replace("URL", shop.production_url).split())

        assert ended.code == code, command
        assert told in " ".join(ended.stderr.replace("│", " ").split()), command
        assert "hunter2" not in ended.stdout + ended.stderr
    assert (shop.arrivals(), shop.json("list")) == (0, before)


def test_a_protected_target_is_never_chosen_by_itself(shop: Shop) -> None:
    shop.enqueue(1, to="production")

    assert [each["target"] for each in shop.json("drain")["data"]] == ["local", "staging"]
    assert shop.accepted("production") == 0
    confirmed = ("--env", "production", "--confirm", "production")
    assert shop.json("drain", *confirmed)["data"][0]["sent"] == 1
    assert shop.accepted("production") == 1


def test_a_url_and_a_key_by_hand_replace_those_of_the_target(shop: Shop) -> None:
    shop.enqueue(2)
    # Given a target that has stopped because of its own key
    shop.key_file("local.key", "wrong")
    assert shop.run("drain", "--env", "local").code == 1
    key = shop.key_file("by-hand.key", shop.backend.api_key("staging"))

    by_hand = ("--env", "local", "--api-url", f"{shop.url}/staging", "--api-key-file", key)
    assert shop.json("drain", *by_hand, "--dry-run")["data"][0]["url"] == f"{shop.url}/staging"
    [result] = shop.json("drain", *by_hand)["data"]

    assert (result["target"], result["sent"]) == ("local", 2)
    assert (shop.accepted("staging"), shop.accepted("local")) == (2, 0)
    # The stop of the configured target is not of the one by hand.
    assert "stopped local" in shop.run("list").stderr


def test_a_wrong_key_by_hand_stops_nothing(shop: Shop) -> None:
    shop.enqueue(1)
    key = shop.key_file("by-hand.key", "wrong")

    ended = shop.run(
        "drain", "--env", "local", "--api-url", f"{shop.url}/local", "--api-key-file", key
    )

    assert ended.code == 1 and "local has stopped: it answered 401" in ended.stderr
    assert "\nstopped" not in shop.run("list").stderr
    assert shop.json("drain", "--env", "local")["data"][0]["sent"] == 1


def test_deliveries_are_retried_by_name_and_those_that_cannot_be_are_told(shop: Shop) -> None:
    shop.enqueue_payloads([{"not": "a batch"}])
    drained = shop.run("drain", "--env", "local")
    assert (drained.code, "sent 0 · failed 0 · dead 1" in drained.stdout) == (1, True)
    [dead] = shop.json("list")["data"]

    ended = shop.run("retry", dead["id"], "nothing")

    assert (ended.code, ended.stdout) == (1, f"{dead['id']} is pending again\n")
    assert "there is no delivery 'nothing'" in ended.stderr
    shop.enqueue(1)
    shop.run("drain", "--env", "local")
    [sent] = shop.json("list", "--state", "sent")["data"]
    again = shop.run("retry", sent["id"], "--json")
    assert "no retry from there" in json.loads(again.stdout)["refused"][sent["id"]]


def test_a_replay_sends_old_messages_to_a_new_target_once(shop: Shop) -> None:
    shop.enqueue(3)
    shop.run("drain", "--env", "local")
    replay = ("replay", "--env", "staging", "--since", "2020-01-01")

    planned = shop.json(*replay, "--dry-run")
    assert (planned["messages"], shop.states("staging")) == (3, {})
    assert "on the way to staging: 3 messages" in shop.run(*replay).stdout
    assert shop.json(*replay)["messages"] == 0
    assert shop.json("replay", "--env", "local", "--since", "2020-01-01")["messages"] == 0
    assert shop.json("replay", "--env", "staging", "--since", "2100-01-01T00:00")["messages"] == 0
    assert shop.json("drain")["data"][1]["sent"] == 3
    assert (shop.accepted("staging"), shop.accepted("local")) == (3, 3)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)]
)
def test_a_worker_sends_until_it_is_stopped_and_tells_the_counts(shop: Shop, number: int) -> None:
    shop.enqueue(2)
    shop.enqueue(1, to="production")
    worker = ("outbox", "worker", "--env", "local", "--interval-s", "0.1")
    with started(shop.environment, shop.folder, *worker) as process:
        wait_for(process, "drain_ended")
        shop.enqueue(1, run="run-2")
        wait_for(process, "drain_ended")
        process.send_signal(number)

        assert process.wait() == 0
        assert process.stdout.read() == "local: processed 3 · sent 3 · failed 0 · dead 0\n"
    assert (shop.accepted("local"), shop.accepted("production")) == (3, 0)


def test_a_worker_forgets_what_was_sent_long_enough_ago(shop: Shop) -> None:
    shop.enqueue(2)
    shop.run("drain", "--env", "local")
    with sqlite3.connect(shop.folder / "outbox.db") as db:
        db.execute("UPDATE headgate_deliveries SET sent_at = 0")
    shop.enqueue(1, run="run-2")
    with started(shop.environment, shop.folder, "outbox", "worker", "--env", "local") as process:
        wait_for(process, "drain_ended")
        process.send_signal(signal.SIGTERM)

        assert process.wait() == 0
    assert shop.states() == {"sent": 1}


@pytest.mark.thorough
def test_a_worker_for_a_protected_target_names_it_twice(shop: Shop) -> None:
    shop.enqueue(2, to="production")
    named = ("--env", "production", "--confirm", "production")
    with started(shop.environment, shop.folder, "outbox", "worker", *named) as process:
        wait_for(process, "drain_ended")
        process.send_signal(signal.SIGTERM)

        assert process.wait() == 0
    assert shop.accepted("production") == 2


def test_a_drain_that_is_interrupted_finishes_what_it_sends(shop: Shop) -> None:
    shop.enqueue(30)
    # Given a backend that is so slow that the signal comes before the end
    shop.backend.faults.add(Fault(kind=FaultKind.SLOW, seconds=0.5))
    with started(shop.environment, shop.folder, "outbox", "drain", "--env", "local") as process:
        wait_until_asked(shop, process, times=4)
        process.send_signal(signal.SIGINT)

        assert process.wait() == 130
        assert "given back" in process.stdout.read()
        assert "interrupted; what was not sent waits as before" in process.stderr.read()
    states = shop.states()
    assert set(states) == {"sent", "pending"} and sum(states.values()) == 30
    assert states["sent"] == shop.accepted("local") == shop.arrivals()


def test_a_second_signal_ends_a_drain_whose_target_does_not_answer(shop: Shop) -> None:
    shop.enqueue(3)
    shop.backend.faults.add(Fault(kind=FaultKind.TIME_OUT))
    with started(shop.environment, shop.folder, "outbox", "drain", "--env", "local") as process:
        wait_until_asked(shop, process, times=3)
        process.send_signal(signal.SIGINT)
        wait_for(process, "Ctrl-C again stops at once")
        process.send_signal(signal.SIGINT)

        assert process.wait() == 130
    # Whether they arrived is not known: they are sent again when their leases expire.
    assert shop.states() == {"sending": 3}


def wait_until_asked(shop: Shop, process: Process, *, times: int) -> None:
    """Wait until so many requests have met the only fault of the backend."""

    def asked() -> Any:
        return shop.backend.faults.stats()[0]["struck"]

    while asked() < times:
        assert process.poll() is None


def wait_for(process: Process, event: str) -> None:
    """Read its errors until a line has that."""
    assert any(event in line for line in process.stderr)
