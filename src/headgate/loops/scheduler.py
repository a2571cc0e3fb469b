"""The scheduler: it fires the schedules whose time has come, and sleeps until the next one.

Every worker process runs one, without a leader. The store decides which of them fires a tick, so a
second one costs a read, and one that crashes is not missed. The store's clock says what is due;
this process's clock only measures how long to sleep.
"""

from headgate.base.service import Service
from headgate.flow.runtime import Runtime
from headgate.flow.schedules.fire import declare, fire_due
from headgate.flow.schedules.plan import store_of
from headgate.model.schedule import Schedule, ScheduleState
from headgate.ports.signal import SCHEDULES

#: The longest sleep: clocks are set, machines are suspended, hints are lost.
SLEEP_S_MAX = 900.0


class Scheduler(Service):
    """Fires what is due of the application's schedules."""

    name = "scheduler"

    def __init__(self, rt: Runtime, *, worker: str) -> None:
        """Fire ticks as `worker`."""
        super().__init__(rt.clock)
        self._rt = rt
        self._worker = worker
        self._schedules = rt.registry.schedules
        #: Stored once by every process: a process of an older version must not undo a newer one.
        self._declared = False
        rt.signal.subscribe(SCHEDULES, self)

    async def run_once(self) -> float:
        """Fire what is due, then rest until the next tick."""
        if not self._declared:
            await declare(self._rt, list(self._schedules.values()))
            self._declared = True
        now, states = await store_of(self._rt).states(list(self._schedules))
        # If somebody deleted a row, it is stored again.
        self._declared = len(states) == len(self._schedules)
        rests_s = [SLEEP_S_MAX]
        failed: Exception | None = None
        for state in states:
            schedule = self._schedules[state.name]
            if not _is_ours(schedule, state):
                continue
            wait_s = (state.next_tick_at - now).total_seconds()
            rests_s.append(max(0.0, wait_s))
            if wait_s <= 0:
                try:
                    await fire_due(self._rt, schedule, state, now, worker=self._worker)
                except Exception as error:
                    # One that fails keeps no other from firing.
                    failed = failed or error
        if failed is not None:
            raise failed
        return min(rests_s)


def _is_ours(schedule: Schedule, state: ScheduleState) -> bool:
    """Whether it is neither paused nor defined otherwise by a newer version of the application."""
    return state.paused_at is None and state.definition == schedule.definition
