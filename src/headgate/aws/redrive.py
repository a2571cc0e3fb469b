"""Moves messages from dead-letter queues back to the queues that they came from."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

from headgate.base.errors import HeadgateError, InvalidInput
from headgate.model.job import Lane
from headgate.signals.sqs import BATCH_MAX
from headgate.store.dynamodb.engine.address import SCHEME, parse_address
from headgate.store.dynamodb.engine.errors import NO_CREDENTIALS, NO_CREDENTIALS_TEXT

if TYPE_CHECKING:
    from types_aiobotocore_sqs import SQSClient
    from types_aiobotocore_sqs.type_defs import SendMessageRequestTypeDef

#: For how long a dead-letter queue is asked: asked for less, SQS may say that it is empty.
WAIT_S = 1


class RedriveFailed(HeadgateError):
    """The messages could not be moved."""


class Redrive(msgspec.Struct, frozen=True):
    """The messages of one lane that were moved back, or would be."""

    lane: Lane
    #: The dead-letter queue.
    queue: str
    messages: int


def region_of(database: str) -> str | None:
    """The region that the address of the table names, if it is one and does."""
    return parse_address(database).region if database.startswith(f"{SCHEME}:") else None


async def redrive(
    queues: Mapping[Lane, str], *, region: str | None = None, dry_run: bool = False
) -> list[Redrive]:
    """Move the messages of all dead-letter queues back; a dry run only counts them.

    A message is a hint: for a job that went on meanwhile it does nothing. The region is the
    environment's unless it is given. RedriveFailed says what is wrong, and with which queue.
    """
    if not queues:
        raise InvalidInput("aws_hot_queue", "is not set, so no queue is known")
    async with AsyncExitStack() as closing:
        client = await _open_client(closing, region)
        done = [
            await _redrive_lane(client, lane, url, dry_run=dry_run) for lane, url in queues.items()
        ]
    return [each for each in done if each is not None]


async def _open_client(closing: AsyncExitStack, region: str | None) -> "SQSClient":
    made = get_session().create_client("sqs", region_name=region)
    try:
        return await closing.enter_async_context(made)
    except NoRegionError:
        raise RedriveFailed("no region is set: set AWS_DEFAULT_REGION") from None
    except (BotoCoreError, ValueError) as error:
        problem = str(error).rstrip(".")
        raise RedriveFailed(
            f"no client of SQS can be made: {problem}; correct AWS_PROFILE, AWS_DEFAULT_REGION and "
            "AWS_ENDPOINT_URL, or ?region=… of HEADGATE_DATABASE"
        ) from None


async def _redrive_lane(
    client: "SQSClient", lane: Lane, url: str, *, dry_run: bool
) -> Redrive | None:
    setting = f"aws_{lane.value}_queue"
    try:
        return await _move_all(client, lane, url, dry_run=dry_run)
    except client.exceptions.QueueDoesNotExist:
        raise RedriveFailed(
            f"{setting}: {url} or its dead-letter queue is not in {client.meta.region_name}; the "
            "URL is an output of the stack, and the region is the stack's"
        ) from None
    except NO_CREDENTIALS:
        raise RedriveFailed(NO_CREDENTIALS_TEXT) from None
    except (BotoCoreError, ClientError) as error:
        raise RedriveFailed(f"{setting}: SQS refused: {error}") from error


async def _move_all(client: "SQSClient", lane: Lane, url: str, *, dry_run: bool) -> Redrive | None:
    attributes = await client.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    policy = attributes.get("Attributes", {}).get("RedrivePolicy")
    if policy is None:
        return None
    arn = msgspec.json.decode(policy)["deadLetterTargetArn"]
    dead = (await client.get_queue_url(QueueName=arn.rpartition(":")[2]))["QueueUrl"]
    if dry_run:
        counted = await client.get_queue_attributes(
            QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return Redrive(lane, arn, int(counted["Attributes"]["ApproximateNumberOfMessages"]))
    moved = 0
    while some := await _move_some(client, dead, url):
        moved += some
    return Redrive(lane, arn, moved)


async def _move_some(client: "SQSClient", dead: str, url: str) -> int:
    """Move a batch of messages; returns how many.

    Each is sent before it is deleted: one that is then there twice does no harm.
    """
    found = await client.receive_message(
        QueueUrl=dead,
        MaxNumberOfMessages=BATCH_MAX,
        MessageSystemAttributeNames=["MessageGroupId"],
        WaitTimeSeconds=WAIT_S,
    )
    messages = found.get("Messages", [])
    for each in messages:
        group = each.get("Attributes", {}).get("MessageGroupId")
        more: SendMessageRequestTypeDef = {"QueueUrl": url, "MessageBody": each["Body"]}
        if group is not None:
            more["MessageGroupId"] = group
        await client.send_message(**more)
        await client.delete_message(QueueUrl=dead, ReceiptHandle=each["ReceiptHandle"])
    return len(messages)
