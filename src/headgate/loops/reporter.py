"""The reporter: it logs what the worker has done, a line every few seconds while it works."""

from headgate.base.clock import Clock
from headgate.base.log_events import LogEvent
from headgate.base.service import Service
from headgate.flow.work_counts import WorkCounts

#: How often a line is logged, at most.
REPORT_EVERY_S = 5.0


class Reporter(Service):
    """Tells of work at its beginning, and then in intervals; it sleeps while nothing is done."""

    name = "reporter"

    def __init__(self, work: WorkCounts, clock: Clock) -> None:
        """Tell of what `work` counts."""
        super().__init__(clock)
        self._work = work
        self._told = work.total()
        self._idle = False
        work.listen(self._hear)

    async def run_once(self) -> float | None:
        """Log what was done since the last line, if anything was."""
        total = self._work.total()
        done = total.since(self._told)
        self._told = total
        self._idle = not done.anything or not self._log.logs_info
        if self._idle:
            return None
        self._log.info(
            LogEvent.WORKING,
            chunks=done.chunks,
            records=done.records,
            items=done.items,
            jobs_ended=done.jobs_ended,
            deferred=done.deferred,
            failed=done.failed,
        )
        return REPORT_EVERY_S

    def _hear(self) -> None:
        # A nudge ends any rest, and the one between two lines should last.
        if self._idle:
            self._idle = False
            self.nudge()
