"""The events that this system logs, beside those of the engine."""

from enum import StrEnum


class StreamsLogEvent(StrEnum):
    """What a line of the log is about."""

    #: One for each attempt at an activity's streams, whatever became of it.
    STREAM_FETCH = "stream_fetch"
    WEBHOOK_EVENT = "webhook_event"
    WEBHOOK_EVENT_REFUSED = "webhook_event_refused"
    WEBHOOK_HANDSHAKE_REFUSED = "webhook_handshake_refused"
