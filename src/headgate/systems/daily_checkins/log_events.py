"""The events that this system logs, beside those of the engine."""

from enum import StrEnum


class CheckinsLogEvent(StrEnum):
    """What a line of the log is about."""

    #: A night begins, and its imports are queued: named as in the design.
    ORCHESTRATOR_STARTED = "orchestrator_started"
    ORCHESTRATOR_COMPLETED = "orchestrator_completed"
    CHECK_INS_IMPORT_STARTED = "check_ins_import_started"
    CHECK_INS_IMPORT_COMPLETED = "check_ins_import_completed"
    CHECK_INS_IMPORT_FAILED = "check_ins_import_failed"
    CHECK_INS_IMPORT_CANCELLED = "check_ins_import_cancelled"
