"""The locks of simulated workers, which a crash frees and a pause does not."""

from collections.abc import Collection, Sequence

from headgate.testing.host import Host


class WorkerLocks:
    """The liveness of all hosts of a deployment, shared by them."""

    #: Every worker has its lock from the start to the crash.
    held = True

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def add(self, host: Host) -> None:
        """Give a host its lock."""
        self._hosts[str(host)] = host

    async def hold(self, worker: str) -> None:
        """Do nothing: the host has its lock."""

    async def release(self) -> None:
        """Do nothing: a host that stops has nothing left to lose."""

    async def find_dead(self, workers: Sequence[str]) -> Collection[str]:
        """Those of these workers whose host has crashed."""
        return [worker for worker in workers if self._hosts[worker].crashed]
