"""Logs every night, and the start and the end of every import with its new check-ins."""

from datetime import datetime

from headgate import JobState
from headgate.systems.daily_checkins.log_events import CheckinsLogEvent
from headgate.toolkit import get_logger
from headgate.types import Job, Tick

_log = get_logger(__name__)


def log_tick_start(tick: datetime, active_users: int) -> None:
    """Log that a night begins."""
    _log.info(
        CheckinsLogEvent.ORCHESTRATOR_STARTED, tick=tick.isoformat(), active_users=active_users
    )


def log_tick_end(tick: Tick) -> None:
    """Log that the imports of a night are queued."""
    _log.info(
        CheckinsLogEvent.ORCHESTRATOR_COMPLETED,
        tick=tick.tick.isoformat(),
        users_queued=tick.queued,
        users_skipped=tick.skipped,
    )


def log_start(job: Job) -> None:
    """Log that an import starts."""
    _log.info(
        CheckinsLogEvent.CHECK_INS_IMPORT_STARTED,
        job=job.id,
        user=job.user_id,
        connection=job.connection_id,
        mode=job.mode.value,
    )


def log_end(job: Job) -> None:
    """Log how an import ended; what a failed one has stored is counted too."""
    counts = {"new": job.summary.inserted, "changed": job.summary.updated}
    match job.state:
        case JobState.SUCCESS:
            _log.info(
                CheckinsLogEvent.CHECK_INS_IMPORT_COMPLETED,
                job=job.id,
                user=job.user_id,
                new=counts["new"],
                changed=counts["changed"],
                pages=job.summary.chunks,
            )
        case JobState.FAILED:
            _log.error(
                CheckinsLogEvent.CHECK_INS_IMPORT_FAILED,
                job=job.id,
                user=job.user_id,
                new=counts["new"],
                reason=job.reason.value,
                error=job.error,
                errors=job.summary.errors,
            )
        case _:
            _log.info(
                CheckinsLogEvent.CHECK_INS_IMPORT_CANCELLED,
                job=job.id,
                user=job.user_id,
                new=counts["new"],
            )
