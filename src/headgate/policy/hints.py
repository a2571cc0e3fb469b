"""When a message about a due job is sent again: pure, so a sweeper of any queue decides alike."""

from datetime import datetime, timedelta

from headgate.model.job import Job

#: The longest wait for which a message is sent ahead, and held back by the queue.
AHEAD_MAX = timedelta(minutes=15)
#: A message that was sent is expected to be received within this time; after each such time the
#: job gets another one.
RECEIVED_WITHIN = timedelta(minutes=5)
#: Sweeps are a minute apart, more or less. Each job is looked at within this time of its due time.
LOOKED_AT_WITHIN = timedelta(seconds=90)


def needs_hint(job: Job, now: datetime) -> bool:
    """Whether a due job needs a message: it got none when it was set to wait, or it was lost."""
    assert job.wake_at is not None, "a due job has a time at which it is due"
    late = now - job.wake_at
    if late % RECEIVED_WITHIN > LOOKED_AT_WITHIN:
        return False
    sent_ahead = job.wake_at - job.updated_at <= AHEAD_MAX
    return not sent_ahead or late >= RECEIVED_WITHIN
