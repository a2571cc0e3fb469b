"""Logs every attempt to fetch an activity's streams, with the fields that the design names."""

from headgate import FetchAttempt
from headgate.systems.activity_streams.log_events import StreamsLogEvent
from headgate.toolkit import describe_error, get_logger

_log = get_logger(__name__)


def log_attempt(attempt: FetchAttempt) -> None:
    """Log one line, whatever the result."""
    item, after, error = attempt.item, attempt.after, attempt.error
    attributes = {} if attempt.document is None else attempt.document.attributes
    _log.info(
        StreamsLogEvent.STREAM_FETCH,
        activity_id=item.id,
        athlete_id=item.user_id,
        status=after.state.value if after else "lost",
        channels_fetched=attributes.get("channels", []),
        point_count=attributes.get("point_count", 0),
        error=describe_error(error) if error else None,
        retry_count=after.retry_count if after else item.retry_count,
        duration_ms=round(attempt.duration_s * 1000, 1),
        rate_budget_remaining=attempt.budget_remaining,
    )
