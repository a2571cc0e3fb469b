"""What is printed of drains: the counts, what to do next, and what was left behind."""

import json
from datetime import datetime

import pytest

from headgate.base.times import format_time
from headgate.flow.outbox.attempts import DrainResult
from headgate.model.states import DeliveryState
from headgate.ports.outbox import Backlog
from headgate.toolkit.commands.outbox.results import print_results
from tests.stores import START


def test_the_final_counts_come_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    print_results(
        [
            DrainResult(target="local", sent=1_200, failed=1, dead=2, released=3, rest_s=5.0),
            DrainResult(target="staging", stopped="it answered 401: no"),
        ],
        interrupted=True,
    )

    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "local: processed 1,203 · sent 1,200 · failed 1 · dead 2 · given back 3",
        "staging: processed 0 · sent 0 · failed 0 · dead 0",
    ]
    for said in (
        "local is down or busy",
        "headgate outbox list --env local --state failed",
        "headgate outbox list --env local --state dead",
        "staging has stopped: it answered 401: no. ",
        "interrupted",
    ):
        assert said in printed.err


def test_what_a_drain_left_behind_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    results = [DrainResult(target="local"), DrainResult(target="staging")]
    later = {DeliveryState.FAILED: 2, DeliveryState.PENDING: 1}
    left = {
        "local": Backlog(later=later, next_attempt_at=START, claimed=1),
        "staging": Backlog(),
    }

    print_results(results, left)

    assert capsys.readouterr().err.splitlines() == [
        f"local: 3 deliveries wait for a later attempt, the first one at {format_time(START)}",
        "do not wait: headgate outbox retry --state failed --env local",
        "do not wait: headgate outbox retry --state pending --env local",
        "local: 1 delivery is claimed by another worker right now",
    ]
    print_results(results, left, json=True)
    local, staging = json.loads(capsys.readouterr().out)["data"]
    assert (local["waiting"], local["claimed"]) == (3, 1)
    assert datetime.fromisoformat(local["next_attempt_at"]) == START
    assert (staging["waiting"], staging["next_attempt_at"], staging["claimed"]) == (0, None, 0)
