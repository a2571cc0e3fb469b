"""Days: the order in which history is read, and how far along it is. Days are UTC days."""

from datetime import date, timedelta

from headgate.model.job import Job, Progress

DAY = timedelta(days=1)


def day_after(job: Job, day: date) -> date | None:
    """The day to read after `day`, going back in time; None when `day` was the last."""
    assert job.start_date is not None
    return day - DAY if day > job.start_date else None


def history_progress(start: date, end: date, cursor: date | None) -> Progress:
    """Days read out of days asked for; `cursor` is the day being read, None when all are done."""
    total = (end - start).days + 1
    if cursor is None:
        return Progress(done=total, total=total)
    done = min(max((end - cursor).days, 0), total)
    return Progress(done=done, total=total, at=cursor.isoformat())
