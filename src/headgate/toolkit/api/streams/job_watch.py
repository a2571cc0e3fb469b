"""One look a second for all who wait for events of jobs, however many they are.

A worker commits a chunk and tells nobody: an announcement for every chunk would cost every worker
what only a few clients need. So whoever waits is told by a look at all the jobs that somebody waits
for, in one query. While nobody waits, nothing is asked.
"""

import asyncio
from collections import defaultdict

from headgate.base.clock import Clock
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.jobs.service import Jobs
from headgate.model.states import JOB
from headgate.ports.jobs.events import LastEvent

LOOK_EVERY_S = 1.0
#: Jobs that are looked at in one query.
JOBS_MAX = 500

_log = get_logger(__name__)


class _Waiter:
    """One who waits for an event of a job after an id."""

    def __init__(self, job_id: str, after: int) -> None:
        self.job_id = job_id
        self.after = after
        self.found = asyncio.Event()

    def is_answered_by(self, last: LastEvent | None) -> bool:
        """Whether the job has new events, has ended, or no longer exists."""
        return last is None or last.id > self.after or last.state in JOB.terminal


class JobWatch:
    """Wakes those who wait for events of jobs."""

    def __init__(self, jobs: Jobs, clock: Clock, *, every_s: float = LOOK_EVERY_S) -> None:
        """Look at `jobs` every `every_s` while somebody waits."""
        self._jobs = jobs
        self._clock = clock
        self._every_s = every_s
        self._waiters: set[_Waiter] = set()
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, job_id: str, *, after: int) -> None:
        """Wait until the job has an event after the id `after`, has ended, or is gone."""
        waiter = _Waiter(job_id, after)
        self._waiters.add(waiter)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_again_and_again(), name="job watch")
        try:
            await waiter.found.wait()
        finally:
            self._waiters.discard(waiter)
            if not self._waiters and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look_again_and_again(self) -> None:
        while True:
            await self._clock.sleep(self._every_s)
            try:
                await self._look()
            except Exception as error:
                # The database may be restarting; those who wait go on waiting.
                _log.error(LogEvent.ROUND_FAILED, service="job watch", error=describe_error(error))

    async def _look(self) -> None:
        waiting = defaultdict(list)
        for each in self._waiters:
            waiting[each.job_id].append(each)
        ids = list(waiting)
        for start in range(0, len(ids), JOBS_MAX):
            asked = ids[start : start + JOBS_MAX]
            found = await self._jobs.last_events(asked)
            for job_id in asked:
                for each in waiting[job_id]:
                    if each.is_answered_by(found.get(job_id)):
                        each.found.set()
