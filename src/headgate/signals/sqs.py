"""Signals over SQS: a message is a hint that names one job and the step that it waits for.

The job's row is the truth. A message that comes twice, late or out of order finds a job that is
claimed, or further on, and does nothing. One that is lost is sent again by the sweeper. So a hint
that cannot be sent is logged, and costs time.
"""

import asyncio
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from headgate.base.errors import InvalidInput
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.model.job import Lane
from headgate.policy.hints import AHEAD_MAX
from headgate.ports.signal import JobHint, lane_topic
from headgate.signals.local import LocalSignal

if TYPE_CHECKING:
    from types_aiobotocore_sqs import SQSClient
    from types_aiobotocore_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

#: What SQS allows: messages in one request, and the longest delay of a message.
BATCH_MAX = 10
DELAY_S_MAX = int(AHEAD_MAX.total_seconds())
#: A message group's name: so many letters, digits and marks of ASCII.
_GROUP = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
#: Sending is never worth a long wait: the sweeper sends what was not sent. A person may be waiting
#: for the answer to what is announced, so all tries of a request end after `SEND_S_MAX`.
_CONNECT_S_MAX = 3.0
_READ_S_MAX = 5.0
_TRIES_MAX = 3
SEND_S_MAX = 8.0

_log = get_logger(__name__)


class HintMessage(msgspec.Struct, frozen=True):
    """The body of a message: the job's id, and how many chunks it had when it was sent."""

    job: str
    step: int


def decode_message(body: str) -> HintMessage:
    """The body of a message; msgspec.MsgspecError if it is not one."""
    return msgspec.json.decode(body, type=HintMessage)


def group_of(user_id: str) -> str:
    """The message group of a user, by which the queue is fair among users."""
    if _GROUP.fullmatch(user_id):
        return user_id
    return f"sha256:{hashlib.sha256(user_id.encode()).hexdigest()}"


class SqsSignal(LocalSignal):
    """Sends a message for each job that is announced, and nudges this process's listeners."""

    def __init__(
        self,
        queues: Mapping[Lane, str],
        now: Callable[[], datetime],
        *,
        region: str | None = None,
    ) -> None:
        """Send to `queues`, the URL of each lane's. `now` is the store's time: jobs are due by it.

        The endpoint is the environment's, and so is the region unless it is given.
        """
        super().__init__()
        self._queues = {lane_topic(lane): url for lane, url in queues.items()}
        self._now = now
        self._region = region
        self._closing = AsyncExitStack()
        self._client: SQSClient | None = None

    async def start(self) -> None:
        """Make the client, in the event loop that will send.

        Raises InvalidInput if the environment names a region or an endpoint that there cannot be.
        """
        if self._client is None:
            config = AioConfig(
                connect_timeout=_CONNECT_S_MAX,
                read_timeout=_READ_S_MAX,
                tcp_keepalive=True,
                # A function may find its connections closed after it was frozen.
                retries={"mode": "standard", "total_max_attempts": _TRIES_MAX},
            )
            made = get_session().create_client("sqs", region_name=self._region, config=config)
            try:
                self._client = await self._closing.enter_async_context(made)
            except (BotoCoreError, ValueError) as error:
                problem = str(error).rstrip(".")
                raise InvalidInput(
                    "database",
                    f"no client of SQS can be made: {problem}; correct AWS_PROFILE, "
                    "AWS_DEFAULT_REGION and AWS_ENDPOINT_URL",
                ) from None

    async def stop(self) -> None:
        self._client = None
        await self._closing.aclose()

    async def announce(
        self, topic: str, due: Sequence[JobHint] = (), *, sent: bool = False
    ) -> None:
        """Nudge this process's listeners, and send a message for each of the jobs."""
        self.nudge(topic)
        url = self._queues.get(topic)
        if url is not None:
            await self._send(url, due)

    async def _send(self, url: str, due: Iterable[JobHint]) -> None:
        waiting = list(self._soon(due))
        for first in range(0, len(waiting), BATCH_MAX):
            batch = waiting[first : first + BATCH_MAX]
            entries = [_entry(number, job, delay_s) for number, (job, delay_s) in enumerate(batch)]
            try:
                await self._send_batch(url, entries)
            except ClientError as error:
                _note_not_sent(len(batch), error)
            except (BotoCoreError, OSError, TimeoutError) as error:
                # SQS does not answer, and the next request would wait as long.
                _note_not_sent(len(waiting) - first, error)
                return

    async def _send_batch(
        self, url: str, entries: "Sequence[SendMessageBatchRequestEntryTypeDef]"
    ) -> None:
        assert self._client is not None, "the signal was not started"
        async with asyncio.timeout(SEND_S_MAX):
            sent = await self._client.send_message_batch(QueueUrl=url, Entries=entries)
        failed = sent.get("Failed", ())
        if failed:
            _log.warning(LogEvent.HINTS_NOT_SENT, count=len(failed), error=failed[0]["Code"])

    def _soon(self, due: Iterable[JobHint]) -> Iterable[tuple[JobHint, int]]:
        """The jobs with the seconds until they are due, but for those that wait too long."""
        now = self._now()
        for job in due:
            wait_s = 0.0 if job.due_at is None else (job.due_at - now).total_seconds()
            # Rounded up: a message that comes too early finds a job that is not due.
            delay_s = max(0, math.ceil(wait_s))
            if delay_s <= DELAY_S_MAX:
                yield job, delay_s


def _note_not_sent(count: int, error: Exception) -> None:
    _log.warning(LogEvent.HINTS_NOT_SENT, count=count, error=describe_error(error))


def _entry(number: int, job: JobHint, delay_s: int) -> "SendMessageBatchRequestEntryTypeDef":
    return {
        "Id": str(number),
        "MessageBody": msgspec.json.encode(HintMessage(job.id, job.step)).decode(),
        "DelaySeconds": delay_s,
        "MessageGroupId": group_of(job.user_id),
    }
