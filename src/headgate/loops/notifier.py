"""The notifier: it tells people of jobs that stay paused for long, which nobody changes."""

from headgate.base.service import BATCH_REST_S, Service
from headgate.flow.runtime import Runtime
from headgate.ports.people.notifications import NotificationStore
from headgate.ports.signal import OUTBOX

#: Eleven times an hour: a pause of a day is told within minutes.
LOOK_EVERY_S = 330.0
PAUSES_MAX = 100


class Notifier(Service):
    """Tells people of long pauses; for an application that notifies them."""

    name = "notifier"

    def __init__(self, rt: Runtime, told: NotificationStore) -> None:
        """Tell of the jobs in the store of `rt`."""
        super().__init__(rt.clock)
        self._signal = rt.signal
        self._told = told

    async def run_once(self) -> float:
        """Tell of a batch; the next one soon, if there may be more."""
        found = await self._told.tell_paused(limit=PAUSES_MAX)
        if found:
            await self._signal.announce(OUTBOX)
        return BATCH_REST_S if found == PAUSES_MAX else LOOK_EVERY_S
