"""When a message about a due job is sent again: pure, so the sweeper of any queue decides alike."""

from datetime import datetime, timedelta

from headgate.model.job import Job

#: The longest wait for which a message is sent ahead, and held back by the queue.
AHEAD_MAX = timedelta(minutes=15)
#: A message that was sent is expected to be received within this time. If the job is still due
#: then, it gets another one, and more at twice the time, four times, and so on,
RECEIVED_WITHIN = timedelta(minutes=5)
#: until they are this far apart: in a long queue, most messages have a twin that still waits.
AGAIN_WITHIN_MAX = 32 * RECEIVED_WITHIN


def needs_hint(job: Job, *, since: datetime, now: datetime) -> bool:
    """Whether a job that is due now became due for a message after `since`, the last look.

    It becomes so when its wait ends, if that was too long for a message to be sent ahead, and
    later at growing intervals, because a message may have been lost. So of looks that follow each
    other, however far apart, one finds it.
    """
    assert job.wake_at is not None, "a due job has a time at which it is due"
    late = now - job.wake_at
    interval = RECEIVED_WITHIN
    while 2 * interval <= late and interval < AGAIN_WITHIN_MAX:
        interval *= 2
    last = late - late % interval
    sent_ahead = job.wake_at - job.updated_at <= AHEAD_MAX
    if sent_ahead and last < RECEIVED_WITHIN:
        return False
    return job.wake_at + last > since
