"""The reporter: it logs what the worker has done, a line every few seconds while it works."""

from headgate.base.clock import Clock
from headgate.base.log_events import LogEvent
from headgate.base.service import Service
from headgate.flow.measurements import Measurements

#: How often a line is logged, at most.
REPORT_EVERY_S = 5.0


class Reporter(Service):
    """Tells of work at its beginning, and then in intervals; it sleeps while nothing is done."""

    name = "reporter"

    def __init__(self, measurements: Measurements, clock: Clock) -> None:
        """Tell of what is measured from now on."""
        super().__init__(clock)
        self._measurements = measurements
        self._reported = measurements.totals()
        self._idle = False
        measurements.listeners.append(self._wake_up)

    async def run_once(self) -> float | None:
        """Log what was done since the last line, if anything was."""
        totals = self._measurements.totals()
        done = {name: total - self._reported[name] for name, total in totals.items()}
        self._reported = totals
        self._idle = not any(done.values()) or not self._log.logs_info
        if self._idle:
            return None
        self._log.info(
            LogEvent.WORKING,
            chunks=done["chunks"],
            records=done["records"],
            items=done["items"],
            jobs_ended=done["jobs_ended"],
            deferred=done["deferred"],
            failed=done["failed"],
        )
        return REPORT_EVERY_S

    def _wake_up(self) -> None:
        # A nudge ends any rest, and the one between two lines should last.
        if self._idle:
            self._idle = False
            self.nudge()
