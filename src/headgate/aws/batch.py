"""A batch of messages, each of which names a job: all are worked on at once, each for itself."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.loops.on_demand import OnDemandWorker
from headgate.model.job import Lane
from headgate.signals.sqs import decode_message

_log = get_logger(__name__)


async def work_on(
    worker: OnDemandWorker, lane: Lane, records: Sequence[Mapping[str, Any]], *, seconds: float
) -> Sequence[str]:
    """Work on the jobs of these messages; returns the ids of messages that are to come again."""
    async with worker.extending():
        failed = await asyncio.gather(
            *(_work_on_one(worker, lane, each, seconds) for each in records)
        )
    return [each["messageId"] for each, bad in zip(records, failed, strict=True) if bad]


async def _work_on_one(
    worker: OnDemandWorker, lane: Lane, record: Mapping[str, Any], seconds: float
) -> bool:
    """Work on the job of one message; returns whether that failed."""
    job_id = None
    try:
        hint = decode_message(record["body"])
        job_id = hint.job
        await worker.run_job(hint.job, step=hint.step, lane=lane, seconds=seconds)
    # Whatever it is, other messages of the batch are not to come again for it.
    except Exception as error:
        _log.error(LogEvent.MESSAGE_FAILED, job=job_id, error=describe_error(error))
        return True
    return False
