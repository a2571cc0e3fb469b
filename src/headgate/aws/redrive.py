"""Moves messages from dead-letter queues back to the queues that they came from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from headgate.base.errors import HeadgateError, InvalidInput
from headgate.model.job import Lane

if TYPE_CHECKING:
    from types_aiobotocore_sqs import SQSClient


class RedriveFailed(HeadgateError):
    """The messages could not be moved."""


class Redrive(msgspec.Struct, frozen=True):
    """The messages of one lane that are moved back."""

    lane: Lane
    #: The dead-letter queue.
    queue: str
    #: About so many; SQS counts loosely.
    messages: int


async def redrive(queues: Mapping[Lane, str], *, dry_run: bool = False) -> list[Redrive]:
    """Let SQS move the messages of all dead-letter queues back; returns how many there are.

    A message is a hint: for a job that went on meanwhile it does nothing.
    """
    if not queues:
        raise InvalidInput("aws_hot_queue", "is not set, so no queue is known")
    try:
        async with get_session().create_client("sqs") as client:
            return [
                each
                for lane, url in queues.items()
                if (each := await _redrive_lane(client, lane, url, dry_run=dry_run)) is not None
            ]
    except (BotoCoreError, ClientError) as error:
        raise RedriveFailed(f"SQS refused: {error}") from error


async def _redrive_lane(
    client: "SQSClient", lane: Lane, url: str, *, dry_run: bool
) -> Redrive | None:
    attributes = await client.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    policy = attributes.get("Attributes", {}).get("RedrivePolicy")
    if policy is None:
        return None
    arn = msgspec.json.decode(policy)["deadLetterTargetArn"]
    dead = await client.get_queue_url(QueueName=arn.rpartition(":")[2])
    counted = await client.get_queue_attributes(
        QueueUrl=dead["QueueUrl"], AttributeNames=["ApproximateNumberOfMessages"]
    )
    waiting = int(counted["Attributes"]["ApproximateNumberOfMessages"])
    if waiting and not dry_run:
        await client.start_message_move_task(SourceArn=arn)
    return Redrive(lane, arn, waiting)
