"""The eraser: it goes on with erasures of users that were interrupted."""

from headgate.base.service import BATCH_REST_S, Service
from headgate.flow.runtime import Runtime
from headgate.flow.users.erasure import UserData

#: Eleven times an hour: whoever asked for the erasure has been told that it goes on by itself.
LOOK_EVERY_S = 330.0


class Eraser(Service):
    """Finishes erasures; for an application in which users can be erased."""

    name = "eraser"

    def __init__(self, rt: Runtime) -> None:
        """Go on with the erasures in the store of `rt`."""
        super().__init__(rt.clock)
        self._user_data = UserData(rt)

    async def run_once(self) -> float:
        """Do a batch of an erasure; the next one soon, if there was one."""
        return BATCH_REST_S if await self._user_data.go_on() else LOOK_EVERY_S
