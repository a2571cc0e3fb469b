"""What is logged of a drain: once that it begins, and once that it is over, with all it did."""

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.flow.outbox.attempts import DrainResult

_log = get_logger(__name__)


class DrainLog:
    """Tells of one drain, however many rounds it takes."""

    def __init__(self, result: DrainResult) -> None:
        """Tell the counts of `result` at the end."""
        self.result = result
        self._began = False

    def begin(self) -> None:
        """Tell that the drain begins, if that is not told yet."""
        if not self._began:
            self._began = True
            _log.info(LogEvent.DRAIN_BEGAN, target=self.result.target)

    def end(self) -> None:
        """Tell what the drain did, if it was told that it begins."""
        if not self._began:
            return
        result = self.result
        _log.info(
            LogEvent.DRAIN_ENDED,
            target=result.target,
            processed=result.processed,
            sent=result.sent,
            failed=result.failed,
            dead=result.dead,
            released=result.released,
        )
