"""`headgate aws redrive`: counts dead messages, and moves them back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate.cli.main import cli
from tests.aws_stack import client
from tests.emulators import CREDENTIALS

RUNNER = CliRunner()


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch, ministack_address: str) -> Iterator[dict[str, str]]:
    """Two queues, the cold one with a dead-letter queue that has three messages."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": ministack_address}.items():
        monkeypatch.setenv(name, value)
    sqs: Any = client("sqs", ministack_address)
    urls = {
        name: sqs.create_queue(QueueName=f"redrive-{name}")["QueueUrl"]
        for name in ("hot", "cold", "dead")
    }
    arn = sqs.get_queue_attributes(QueueUrl=urls["dead"], AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 5}
    sqs.set_queue_attributes(
        QueueUrl=urls["cold"], Attributes={"RedrivePolicy": json.dumps(policy)}
    )
    for number in range(3):
        body = json.dumps({"job": f"job_{number}", "step": 0})
        sqs.send_message(QueueUrl=urls["dead"], MessageBody=body)
    monkeypatch.setenv("HEADGATE_AWS_HOT_QUEUE", urls["hot"])
    monkeypatch.setenv("HEADGATE_AWS_COLD_QUEUE", urls["cold"])
    yield urls
    for url in urls.values():
        sqs.delete_queue(QueueUrl=url)


def redrive(*options: str) -> Any:
    result = RUNNER.invoke(cli, ["aws", "redrive", "--json", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def count(address: str, url: str) -> int:
    found = client("sqs", address).get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
    )
    return int(found["Attributes"]["ApproximateNumberOfMessages"])


def test_a_dry_run_counts_and_moves_nothing(queues: dict[str, str], ministack_address: str) -> None:
    told = redrive("--dry-run")
    assert not told["moved"]
    assert [(each["lane"], each["messages"]) for each in told["queues"]] == [("cold", 3)]
    assert count(ministack_address, queues["dead"]) == 3


@pytest.mark.fault(10)
def test_dead_messages_go_back_to_their_queue(
    queues: dict[str, str], ministack_address: str
) -> None:
    assert redrive()["moved"]
    assert count(ministack_address, queues["cold"]) == 3
    assert count(ministack_address, queues["dead"]) == 0


def test_queues_without_a_dead_letter_queue_are_told(
    queues: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_AWS_COLD_QUEUE", queues["hot"])
    result = RUNNER.invoke(cli, ["aws", "redrive"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "none of the queues has a dead-letter queue\n"


def test_without_queues_it_says_which_setting_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = RUNNER.invoke(cli, ["aws", "redrive"])
    assert result.exit_code == 2
    assert "aws_hot_queue" in result.output
