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
        sqs.send_message(QueueUrl=urls["dead"], MessageBody=body, MessageGroupId=f"u{number}")
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
    # Each is still its user's, so that the queue stays fair.
    found = client("sqs", ministack_address).receive_message(
        QueueUrl=queues["cold"],
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["MessageGroupId"],
    )["Messages"]
    assert {each["Attributes"]["MessageGroupId"] for each in found} == {"u0", "u1", "u2"}


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


def test_a_queue_that_is_not_there_is_named(
    queues: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_AWS_COLD_QUEUE", queues["cold"] + "-elsewhere")
    result = RUNNER.invoke(cli, ["aws", "redrive"])
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "aws_cold_queue: " in told
    assert "-elsewhere or its dead-letter queue is not in eu-central-1" in told


def test_missing_credentials_are_told(
    queues: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    result = RUNNER.invoke(cli, ["aws", "redrive"])
    assert result.exit_code == 1
    assert "no credentials of AWS: set AWS_PROFILE" in " ".join(result.stderr.split())


def test_the_region_of_the_table_is_that_of_the_queues(
    queues: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("HEADGATE_DATABASE", "dynamodb://table?region=eu-central-1")
    assert redrive("--dry-run")["queues"][0]["messages"] == 3
